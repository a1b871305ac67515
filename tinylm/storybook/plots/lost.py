"""Things lost, hidden, kept for somebody, given back."""

PLOTS = {"lost": 4, "hidden": 4, "finder": 3, "chest": 3, "relay": 4}

RULES = """
treasure:
3| {hero} had a {adj} {thing} that {he} {*liking} very much.
2| For {his} birthday {hero} had got a {adj} {thing} from {his} {kin}.
2| ^{his} {kin} had given {hero} a {adj} {thing}, and {he} took it everywhere.
2| Of all {his} things, {hero} loved a {adj} {thing} best.

lost:
2| <treasure> <lost_gone> <lost_ask> <lost_find> <lost_back> <end>
3| <treasure> <lost_gone> <lost_ask> <lost_wrong> <lost_find> <lost_back>
2| <treasure> <lost_gone> <lost_ask> <lost_wrong> <lost_find> <end>

lost_gone:
3| But <when> the {adj} {thing} was gone. <sad:hero>
3| ^<when> {he} could not find the {adj} {thing}. <sad:hero>
2| ^<when> {hero} lost the {adj} {thing}.

lost_ask:
3| "Where did you last have the {adj} {thing}?" <asks:pal>. "I had it {place.in} the {air} {place},"
  <answers:hero>.
2| "Have you seen my {adj} {thing}?" <asks:hero>. "No, but you were {place.in} the {air} {place} before
  lunch," <answers:pal>.
2| "Do not cry, {hero}," <says:pal>. "Maybe the {adj} {thing} is {place.in} the {air} {place}."
1| {hero} thought hard. Had the {adj} {thing} been left {place.in} the {air} {place}? {pal} thought so.

lost_wrong:
3| First they looked {spot.in} the {spot}, but they found only {*junk}.
2| {pal} looked {spot.in} the {spot} and found {*junk}, but not the {adj} {thing}.
2| {hero} looked {spot.in} the {spot} and {pal} looked {spot2.in} the {spot2}. There was nothing {spot.in}
  the {spot} and only {*junk} {spot2.in} the {spot2}.

lost_find:
3| Then {hero} and {pal} <went> to the {air} {place}. <pet_has>
2| So {pal} took {hero} to the {air} {place}. <pet_has>
2| "Let us go to the {air} {place}," <says:pal>. <pet_has>

pet_has:
3| A {fur} {pet} sat {place.in} the {air} {place}, right beside the {adj} {thing}. The {pet} {pet.sound} and
  would let nobody come near. {hero} gave the {fur} {pet} some {pet.food}, and then the {pet} let {him} take
  the {adj} {thing}.
3| There, {place.in} the {air} {place}, lay the {adj} {thing}, and a {fur} {pet} slept on it. "Wake up,
  {pet}," <says:hero>. The {fur} {pet} {pet.sound} and made room.
2| They saw the {adj} {thing} {place.in} the {air} {place}, but a {fur} {pet} was playing with it. "Does the
  {pet} like {pet.food}?" <asks:pal>. It did. While the {fur} {pet} ate the {pet.food}, {hero} picked up the
  {adj} {thing}.

lost_back:
3| "My {adj} {thing}!" <says:hero>. <gladly:hero,pal>
2| <gladly:hero,pal> "Thank you, {pal}," <says:hero>. "Without you my {thing} would still be {place.in} the
  {air} {place}."
1| {pal} laughed, and {hero} held the {adj} {thing} tight.

hidden:
2| <hide_why> <hide_where> <hide_promise> <hide_forget> <hide_found>
2| <hide_why> <hide_where> <hide_forget> <hide_found> <end>
2| <hide_why> <hide_where> <hide_promise> <hide_away> <hide_forget> <hide_found>

hide_why:
3| ^<when> {hero} found a {adj} {thing}.
2| ^<when> {his} {kin} gave {hero} a {adj} {thing}.
2| ^<when> {hero} bought a {adj} {thing} at the market.

hide_where:
3| "I will hide the {adj} {thing} {place.in} the {air} {place}," <says:hero>.
2| {hero} and {pal} hid the {adj} {thing} {place.in} the {air} {place}.
2| {pal} helped {hero} to hide it {place.in} the {air} {place}.

hide_promise:
3| "Do not tell {third} where the {adj} {thing} is," <says:hero>. "I promise," <answers:pal>.
2| {pal} promised to tell nobody, not even {third}.
2| Only {hero} and {pal} knew, for {third} was not to find the {adj} {thing}.

hide_away:
3| The next day {third} came. "Where is the {adj} {thing}?" <asks:third>. But {pal} kept the promise and
  only <hush>.
2| Soon {third} asked about the {adj} {thing}. {pal} remembered the promise and <hush>.
1| "Is the {adj} {thing} {spot.in} the {spot}?" <asks:third>. {third} looked {spot.in} the {spot} and found
  {*junk}. {pal} <hush>.

hush:
smiled
said nothing
talked about {*game}
shook {pal.his} head
began to whistle
looked the other way

hide_forget:
2| Many days went by, and {hero} forgot where {he} had put the {adj} {thing}. <sad:hero>
2| Then a {weather} week came, and {hero} could not remember where the {adj} {thing} was. <sad:hero>
1| When winter was over, {hero} wanted the {adj} {thing} again. But where was it?

hide_found:
3| "It is {place.in} the {air} {place}," <says:pal>. They <went> to the {air} {place}, and there was the
  {adj} {thing}. <gladly:hero,pal>
2| But {pal} had not forgotten. "You put it {place.in} the {air} {place}, {hero}!" They looked {place.in}
  the {air} {place} and found the {adj} {thing}. <hide_share>
2| {pal} took {hero} to the {air} {place}. "Look {place.in} the {place}," <says:pal>. {hero} looked and
  pulled out the {adj} {thing}. <hide_share>

hide_share:
2| <gladly:hero,pal>
1| [third] This time they showed the {adj} {thing} to {third} too, and {third} was {*glad}.
1| [third] "Now {third} may see it too," <says:hero>, and {third} {*liking} the {adj} {thing}.

finder:
2| <find_it> <find_want> <find_sign> <find_give> <find_thanks>
2| <find_it> <find_sign> <find_go> <find_give> <find_thanks>
1| <find_it> <find_want> <find_sign> <find_go> <find_give> <find_thanks>
1| <find_it> <find_sign> <find_give> <find_thanks> <friendsend>

find_it:
3| ^<when> {hero} and {pal} found a {adj} {thing} {place.in} the {air} {place}.
2| ^<when>, {place.in} the {air} {place}, {hero} saw a {adj} {thing}.

find_want:
3| "Let us keep the {adj} {thing}," <says:hero>. "But whose is it?" <asks:pal>.
2| {hero} wanted to keep the {adj} {thing}. "Somebody must miss it," <says:pal>.
2| "Finders keepers," <says:hero>. {pal} was not so sure.

find_sign:
2| Just then they heard {elder} the {job}. "I have lost my {adj} {thing}," said {elder} and looked {*sad}.
2| At the market they saw a note. It said that {elder} the {job} had lost a {adj} {thing}.
2| That evening they met {elder} the {job}, who was {*sad}. "My {adj} {thing} is gone," said {elder}.

find_go:
2| {hero} thought of the {adj} {thing} at home. It was hard, but {he} went to {elder}.
2| {hero} looked at {pal}. Then {he} <went> to {elder} the {job}.
2| All night {hero} lay awake and thought of {elder}. In the morning {he} and {pal} went to the house of the
  {job}.

find_give:
3| "Here is your {adj} {thing}, {elder}," <says:hero>. "It was {place.in} the {air} {place}."
2| "We found your {adj} {thing} {place.in} the {air} {place}," {pal} told {elder}. {hero} held it out.

find_thanks:
3| "What an honest {hero.kind} you are, {hero}!" said {elder}, and gave {him} some {taste} {food}. {hero}
  shared the {taste} {food} with {pal}.
2| {elder} was so {*glad} that {elder.he} gave them some {taste} {food}. The {taste} {food} tasted good, and
  {hero} and {pal} were {*glad}.
2| The {job} smiled. "You may play with the {adj} {thing} whenever you like," said {elder} to {hero} and
  {pal}.

chest:
3| <chest_find> <chest_locked> <chest_who> <chest_key> <chest_open>

chest_find:
3| ^<when> {hero} and {pal} found a {fabric} {rug} {spot.in} the {spot}. Under the {fabric} {rug} stood a
  chest.
2| ^<when> {hero} looked {spot.in} the {spot} and saw a chest under a {fabric} {rug}.

chest_locked:
2| But the chest was locked. "Who has the key?" <asks:pal>.
2| {pal} pulled and {hero} pushed, but the chest was locked. There was no key {spot.in} the {spot}.

chest_who:
3| They asked {elder} the {job}. "I hid the key {place.in} the {air} {place} long ago," said {elder}.
2| "{elder} the {job} once lived here," <says:hero>. {elder} remembered. "The key is {place.in} the {air}
  {place}."
2| A note on the {fabric} {rug} said, "The key of {elder} the {job} is {place.in} the {air} {place}."

chest_key:
2| They <went> to the {air} {place}. A {fur} {pet} lived there. It {pet.sound}, but {pal} gave the {fur}
  {pet} some {pet.food}, and {hero} took the key.
2| It was dark {place.in} the {air} {place}. {hero} felt about, and there was the key!
2| {pal} looked {place.in} the {air} {place}, and {hero} dug with {his} hands. At last they had the key.

chest_open:
3| The key from the {air} {place} turned. In the chest lay a {adj} {thing}. <gladly:hero,pal> They brought
  the {adj} {thing} to {elder}, but {elder} said, "Keep it, {hero} and {pal}."
2| They ran back to the chest {spot.in} the {spot}, and the key fitted. Inside was a {adj} {thing}! "That
  was mine when I was little," said {elder} the {job}. "Now the {adj} {thing} is yours." <gladly:hero,pal>

relay:
2| <treasure> <relay_lend> <relay_on> <relay_week> <relay_want> <relay_back>
2| <treasure> <relay_lend> <relay_on> <relay_want> <relay_back> <end>

relay_lend:
3| ^<when> {pal} asked for the {adj} {thing}, and {hero} lent it to {pal}. (holder=pal)
2| "May I borrow your {adj} {thing}?" <asks:pal>. {hero} gave the {adj} {thing} to {pal}. (holder=pal)

relay_on:
3| But {pal} lent the {adj} {thing} to {third}. (holder=third)
2| {pal} kept the {adj} {thing} {spot.in} the {spot}.
2| Then {third} came and wanted the {thing} too. So {pal} gave the {adj} {thing} to {third}. (holder=third)
2| {pal} took the {adj} {thing} to the {air} {place} and played there every day.

relay_week:
2| [holder=third] {third} {*liking} the {adj} {thing} and took it to the {air} {place}.
2| [!holder=third] {pal} {*liking} the {adj} {thing} as much as {hero} did.
2| A {weather} week went by, and {hero} played {game} alone.
2| [hobby] {hero} tried to {hobby.do} instead, but {he} thought of the {adj} {thing}.

relay_want:
3| Then {hero} wanted the {adj} {thing} back. "Where is it, {pal}?" <asks:hero>. <relay_tell>
2| "I miss my {adj} {thing}," <says:hero>. "Who has it?" <relay_tell>

relay_tell:
3| [holder=third] "{holder} has it," <answers:pal>. They <went> to {holder}.
2| [holder=third] {pal} turned red. "I gave it to {holder}." {hero} <went> to {holder}.
3| [!holder=third] "I still have it," <answers:pal>.
2| [!holder=third] [spot] "It is {spot.in} the {spot}," <answers:pal>.
2| [!holder=third] [place] "It is {place.in} the {air} {place}," <answers:pal>.

relay_back:
3| {holder} gave the {adj} {thing} back to {hero}. "Thank you for the {adj} {thing}," said {holder}.
  <gladly:hero,pal>
2| "Here is your {adj} {thing}, {hero}," said {holder}. {hero} looked at the {adj} {thing} and then at
  {holder}. "You may borrow it again."
2| But {holder} was sad to give up the {adj} {thing}. "Let us play with it together," <says:hero>. And
  {holder} was {*glad}.
"""
