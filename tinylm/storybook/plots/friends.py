"""Friends: sharing, swapping, a quarrel and its end, a race, a promise, a secret, a birthday."""

PLOTS = {"share": 3, "swap": 4, "quarrel": 4, "race": 3, "promise": 4, "birthday": 3}

RULES = """
share:
2| <share_have> <share_no> <share_walk> <share_trouble> <share_yes> <gladly:pal,hero>
2| <share_have> <share_no> <share_walk> <share_trouble> <share_yes> <share_end>

share_have:
3| ^<when> {his} {kin} gave {hero} some {taste} {food} in a {adj} basket.
2| ^<when> {hero} carried some {taste} {food} in a {adj} basket.
2| ^<when> {hero} got some {taste} {food} from {elder} the {job}.

share_no:
3| "May I have some of your {taste} {food}?" <asks:pal>. "No, I want to keep all the {food} for myself,"
  <answers:hero>. <sad:pal>
2| {pal} was hungry and looked at the {taste} {food}. But {hero} would not share the {food}. <sad:pal>

share_walk:
3| {hero} went to the {air} {place} alone, to eat the {taste} {food} {place.in} the {place}.
2| So {hero} ran off with the {taste} {food} and sat down {place.in} the {air} {place}.

share_trouble:
3| But {place.in} the {air} {place} waited a {fur} {pet}. The {fur} {pet} {pet.sound} and snatched half of
  the {food}. {pal} heard it and came.
2| A {fur} {pet} came out of the {pet.home} and {pet.sound}. {hero} was afraid of the {fur} {pet} and called
  for {pal}. {pal} came at once.

share_yes:
3| {pal} knew what to do. {pal} gave the {fur} {pet} some {pet.food}, and the {pet} went away. {hero} looked
  at the {taste} {food}. "Half of it is for you, {pal}," <says:hero>.
2| "Go home, {pet}," <says:pal>, and the {fur} {pet} {*going} off. "I am sorry, {pal}," <says:hero>. "Please
  take some of my {taste} {food}."

share_end:
3| Together they ate the {taste} {food} {place.in} the {air} {place}. Never had they liked {food} so much.
  <gladly:pal,hero>
2| {hero} and {pal} shared the {taste} {food}, and even the {fur} {pet} got a bit. <friendsend>
2| "Next time I will share my {food} at once," <says:hero>. <gladly:pal,hero>

swap:
2| <swap_have> <swap_do> <swap_after> <swap_loss> <swap_help> <swap_back>
2| <swap_have> <swap_do> <swap_loss> <swap_help> <swap_back> <end>
1| <swap_have> <swap_do> <swap_after> <swap_loss> <swap_help> <swap_back> <friendsend>

swap_have:
3| {hero} had a {adj} {thing}, and {pal} had a {gadj} {gift}.
2| ^<when> {hero} brought a {adj} {thing} to the {place}. {pal} brought a {gadj} {gift}.

swap_do:
3| "I will give you my {adj} {thing} for your {gadj} {gift}," <says:hero>. "Yes," <answers:pal>.
2| {pal} {*liking} the {adj} {thing}, and {hero} {*liking} the {gadj} {gift}. So they swapped.
2| "Shall we swap?" <asks:pal>. {hero} thought about the {adj} {thing}. Then {he} nodded.

swap_after:
3| Now {hero} had the {gadj} {gift}, and {pal} had the {adj} {thing}.
2| {hero} took the {gadj} {gift} home, and {pal} went off with the {adj} {thing}.
1| {hero} put the {gadj} {gift} {spot.in} the {spot}. {pal} put the {adj} {thing} {spot2.in} the {spot2}.

swap_loss:
3| But at night {hero} missed the {adj} {thing}. <sad:hero>
3| But soon {hero} was tired of the {gadj} {gift}. ^{he} wanted the {adj} {thing} again.
2| The next day {his} {kin} asked, "Where is your {adj} {thing}, {hero}?" "{pal} has it," <answers:hero>.
  <sad:hero>

swap_help:
3| ^{he} <went> to {pal} with the {gadj} {gift}. "Do you like the {adj} {thing}?" <asks:hero>. "Yes,"
  <answers:pal>, "but I miss my {gadj} {gift} too."
2| In the morning {pal} stood at the door with the {adj} {thing}. "May I have the {gadj} {gift} back?"
  <asks:pal>.
2| {pal} saw it at once. "You miss your {adj} {thing}," <says:pal>. "I miss my {gadj} {gift} as well."

swap_back:
3| So {hero} gave back the {gadj} {gift}, and {pal} gave back the {adj} {thing}. <gladly:hero,pal>
2| They laughed and swapped again. Now {hero} had the {adj} {thing}, and {pal} had the {gadj} {gift}, just
  as before.
2| "Let us share both," <says:pal>. On Mondays {hero} had the {gadj} {gift}, and on other days {hero} had
  the {adj} {thing}.

quarrel:
3| <quarrel_over> <quarrel_break> <quarrel_angry> <quarrel_elder> <quarrel_mend> <quarrel_sorry>

quarrel_over:
3| ^<when> {hero} and {pal} both wanted to play with a {adj} {thing}.
2| ^<when> {hero} got a {adj} {thing} from {his} {kin}. {pal} wanted the {adj} {thing} too.

quarrel_break:
3| {hero} pulled, {pal} pulled, and crack! The {adj} {thing} broke.
2| "The {adj} {thing} is mine," <says:hero>. "No, mine!" <says:pal>. Then the {adj} {thing} fell down and
  broke.
1| {pal} took the {adj} {thing} without asking and broke it.

quarrel_angry:
3| "I will never play with you again, {pal}," said {hero}. {pal} ran away and hid {place.in} the {air}
  {place}.
2| {hero} was angry with {pal}, and {pal} was angry with {hero}. {pal} went to sit {place.in} the {air}
  {place}.
2| They shouted at each other. Then {pal} {*going} off to the {air} {place}, and {hero} was alone. <sad:hero>

quarrel_elder:
3| {hero} showed the broken {thing} to {elder} the {job}. "I can mend a {thing}," said {elder}, "but who
  will mend you and {pal}?"
2| {elder} the {job} saw {hero} with the broken {thing}. "A {rel} is worth more than a {thing}," said
  {elder}. "Where is {pal}?"

quarrel_mend:
3| {elder} mended the {adj} {thing}, and {hero} took it to the {air} {place}.
2| {hero} thought of {pal} {place.in} the {air} {place}. ^{he} <went> there with the {adj} {thing}.
2| While {elder} mended the {adj} {thing}, {hero} looked for {pal}. ^{he} found {pal} {place.in} the {air}
  {place}.

quarrel_sorry:
3| "I am sorry, {pal}," <says:hero>. "I am sorry too, {hero}," <answers:pal>. They played with the {adj}
  {thing} together.
2| {pal} looked {*sad}. "Please come home, {pal}," <says:hero>. "{elder} has mended the {thing}. Let us
  share it." <gladly:pal,hero>

race:
3| <race_idea> <race_boast> <race_start> <race_fall> <race_stop> <race_end>

race_idea:
3| ^<when> {elder} the {job} held a race from the {place} to the {air2} {other}. The prize was a {adj}
  {thing}.
2| "Let us race to the {air2} {other}," said {hero}. "Whoever wins gets the {adj} {thing}," <answers:pal>.

race_boast:
3| "I will win the {adj} {thing}," <says:hero>. {pal} and {third} wanted to win it too.
2| {hero} wanted the {adj} {thing} very much. So did {pal}, and so did {third}.
2| {third} ran against them. "The {adj} {thing} will be mine," <says:third>.

race_start:
3| They ran off. {third} was as {*speed}, but {hero} was faster than {third}. {pal} came last.
2| Off they went! First came {hero}, then {third}, and then {pal}.

race_fall:
3| Near the {air2} {other}, {pal} fell and hurt {pal.his} knee. {third} ran on, but {hero} heard {pal} cry.
2| Suddenly a {fur} {pet} ran across the road and {pet.sound}. {pal} fell over the {fur} {pet}. {third} did
  not stop.

race_stop:
3| {hero} thought of the {adj} {thing}. Then {he} turned back and helped {pal} up. Side by side, {hero} and
  {pal} came to the {air2} {other}.
2| "Go on, {hero}, or {third} will win!" <says:pal>. But {hero} took the hand of {pal}, and they walked to
  the {air2} {other} together.

race_end:
3| {third} was already {other.in} the {air2} {other} and had the {adj} {thing}. "You two should have the
  {thing}," <says:third>. "You are real friends." <gladly:pal,hero>
2| {third} won the {adj} {thing}. {hero} did not mind. <friendsend>
2| {third} held the {adj} {thing} up, but everybody clapped for {hero} and {pal}. <friendsend>

promise:
3| <promise_make> <promise_tempt> <promise_recall> <promise_do> <promise_thanks>
2| <promise_make> <promise_tempt> <promise_game> <promise_recall> <promise_do> <promise_thanks>

promise_make:
3| ^<when> {hero} promised {elder} to {deed}.
2| ^<when> {elder} the {job} was ill. "Can you {deed} for me, {hero}?" <asks:elder>. "I promise,"
  <answers:hero>.
2| ^<when> {his} {kin} said, "Please {deed} today, {hero}." "I will," <answers:hero>.

promise_tempt:
3| But on the way {he} met {pal} {place.in} the {air} {place}. "Let us play {game}," <says:pal>. {hero}
  forgot that {he} had to {deed}.
2| Then {pal} came with a {adj} {thing}. "Come and play {place.in} the {air} {place}," <says:pal>. "First I
  have to {deed}," <answers:hero>. But the {adj} {thing} was so {*nice} that {he} went along.

promise_game:
2| They played {place.in} the {air} {place} for hours, and a {fur} {pet} watched them.
2| A {fur} {pet} came to the {air} {place} and {pet.sound}. They gave it some {pet.food}, and the {fur}
  {pet} stayed.
1| They laughed and played {place.in} the {air} {place} until the sun was low.

promise_recall:
3| Suddenly {hero} stood still. "I promised to {deed}!" <says:hero>. <sad:hero>
2| [pet] When the {fur} {pet} went home to its {pet.home}, {hero} remembered. "Oh no, I did not {deed},"
  <says:hero>.
2| "Did you {deed}?" <asks:pal>. {hero} turned red. ^{he} had forgotten it.

promise_do:
3| "A promise is a promise," <says:pal>. "I will help you." They left the {air} {place} and ran, and
  together they {deed.done}.
2| {hero} <went> home from the {air} {place} as fast as {he} could. ^{he} {deed.done} until it was dark, and
  {pal} held the lamp.

promise_thanks:
3| [elder] "You {deed.done}, {hero}! I knew it," said {elder}. <gladly:hero,pal>
3| [!elder] "You {deed.done}, {hero}! I knew it," said {his} {kin}. <gladly:hero,pal>
2| [elder] {elder} gave {hero} and {pal} some {taste} {food}, because they {deed.done}. <friendsend>
2| [!elder] ^{his} {kin} gave {hero} and {pal} some {taste} {food}, because they {deed.done}. <friendsend>

birthday:
2| <bday_soon> <bday_look> <bday_ask> <bday_trade> <bday_give>
2| <bday_soon> <bday_ask> <bday_trade> <bday_give> <friendsend>

bday_soon:
3| Soon it was the birthday of {pal}, and {pal} wished for a {adj} {thing}.
2| "On my birthday I want a {adj} {thing}," {pal} told {hero}.

bday_look:
3| {hero} had no money. ^{he} looked {spot.in} the {spot} and found {*junk}, but no {adj} {thing}. <sad:hero>
2| At the market a {adj} {thing} was too dear. {hero} had only a {gadj} {gift} {spot.in} the {spot}.

bday_ask:
3| "I have a {adj} {thing}," said {elder} the {job}. "You may have it if you {deed} for me."
2| Then {hero} met {elder} the {job}, who had a {adj} {thing}. "What must I do for it?" <asks:hero>. "Just
  {deed}," said {elder}.

bday_trade:
3| So {hero} {deed.done} for {elder} all day, and in the evening {elder} gave {him} the {adj} {thing}.
2| It was hard to {deed}, but {hero} did it. {elder} looked at {hero} and brought the {adj} {thing}.

bday_give:
3| On the birthday {hero} gave the {adj} {thing} to {pal}. "A {adj} {thing}! How did you get it?"
  <asks:pal>. "I {deed.done} for {elder}," <answers:hero>. <gladly:pal,hero>
2| {pal} opened the parcel and saw the {adj} {thing}. <gladly:pal,hero> "{hero} {deed.done} for it," said
  {elder}, and {pal} was very proud of {hero}.
"""
