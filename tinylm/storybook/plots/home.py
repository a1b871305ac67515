"""At home: cooking, borrowing, fear of something, a letter, bedtime."""

PLOTS = {"cooking": 4, "borrow": 3, "fear": 4, "stage": 3, "sick": 3}

RULES = """
cooking:
2| <cook_wish> <cook_have> <cook_fetch> <cook_make> <cook_eat>
2| <cook_wish> <cook_have> <cook_miss> <cook_fetch> <cook_make> <cook_eat>
2| <cook_wish> <cook_have> <cook_fetch> <cook_trade> <cook_make> <cook_eat>

cook_wish:
3| ^<when> {hero} wanted to make {dish} for {his} {kin}.
2| ^<when> {hero} and {pal} were hungry. "Let us make {dish}," <says:hero>.

cook_have:
3| They had {good1} and {good2} for the {dish}, but no {good3}.
2| For the {dish} they needed {good1}, {good2} and {good3}. They found no {good3} in the house.
2| {hero} brought {good1} and {pal} brought {good2}. But nobody had {good3}.

cook_miss:
2| "We cannot make {dish} without {good3}," <says:pal>. <sad:hero>
2| "Who has {good3}?" <asks:hero>. "Maybe {elder} the {job}," <answers:pal>.
1| "Where do we get {good3} for the {dish}?" <asks:pal>.

cook_fetch:
3| So {hero} <went> to {elder} the {job}. "Do you have {good3}?" <asks:hero>. "Yes, {place.in} the {air}
  {place}," said {elder}. At the {air} {place} they filled a bag.
2| {hero} and {pal} <went> to the {air} {place}, where {elder} the {job} lived. "Take the {good3}," said
  {elder}, "but bring me some {dish} later." They promised it.

cook_trade:
3| On the way home from the {air} {place} they met a {fur} {pet}. The {fur} {pet} {pet.sound} and wanted the
  {good3}. "No, we need the {good3} for our {dish}," <says:pal>. Instead {pal} gave the {pet} some
  {pet.food}.
2| {hero} carried the {good3} home, and {pal} sang a song.
2| A {fur} {pet} came along. It {pet.sound}, and {hero} almost dropped the {good3}. But {pal} caught it.

cook_make:
3| Then they put the {good1}, the {good2} and the {good3} into the {dish.pot}. They {dish.made} the {dish}
  {*manner}.
2| First {pal} took the {good1} and the {good2}. Then {hero} added the {good3}, and they {dish.made} it all.
  Soon the {dish} was ready in the {dish.pot}.

cook_eat:
3| The {dish} was {dtaste}. They brought some of the {dtaste} {dish} to {elder} {place.in} the {air}
  {place}. <gladly:elder,hero>
2| "This {dish} is {dtaste}!" said {his} {kin}. "It is because of the {good3} from {elder}," <answers:hero>.
  <gladly:hero,pal>
2| {hero}, {pal} and {elder} sat {place.in} the {air} {place} and ate the {dtaste} {dish}. <friendsend>

borrow:
2| <borrow_want> <borrow_get> <borrow_work> <borrow_lose> <borrow_own> <borrow_end>
2| <borrow_want> <borrow_need> <borrow_get> <borrow_lose> <borrow_own> <borrow_end>

borrow_want:
3| ^<when> {hero} and {pal} wanted to build a {build} {place.in} the {air} {place}.
2| ^<when> {hero} had a plan. "We will build a {build} {place.in} the {air} {place}, {pal}!"

borrow_need:
3| For a {build} they needed a {build.tool}, and they had none.
2| "How can we build a {build} without a {build.tool}?" <asks:pal>.

borrow_get:
3| {elder} the {job} had a {build.tool}. "You may borrow the {build.tool}," said {elder}, "if you bring it
  back tonight." {hero} promised.
2| They asked {elder} the {job}. "Here is my {build.tool}. Take good care of it," said {elder}.

borrow_work:
3| They worked on the {build} all day. {hero} used the {build.tool}, and {pal} sang.
2| {pal} held the wood, and {hero} worked with the {build.tool}. Bit by bit the {build} grew {place.in} the
  {air} {place}.

borrow_lose:
3| In the evening the {build} was done, but the {build.tool} was gone! <sad:hero> But there, {place.in} the
  {air} {place}, sat a {fur} {pet} on the {build.tool}.
2| Then {hero} went home and forgot the {build.tool} {place.in} the {air} {place}. At night it rained, and
  the {build.tool} got rusty. <sad:hero>
2| Then the {build.tool} was gone. A {fur} {pet} sat on it and {pet.sound}. {pal} gave the {fur} {pet} some
  {pet.food}, and {hero} took the {build.tool}.

borrow_own:
3| {hero} took the {build.tool} to {elder} and told the truth. "I am sorry about the {build.tool},"
  <says:hero>.
2| "We have to tell {elder}," <says:pal>. So they brought the {build.tool} back and told {elder} all about it.

borrow_end:
3| "Well, you were honest," said {elder}. "May I see the {build}?" They showed {elder} the {build}
  {place.in} the {air} {place}.
2| {elder} smiled, came to the {air} {place} and {*liking} the {build}. <gladly:hero,pal>

fear:
2| <fear_of> <fear_gone> <fear_where> <fear_go> <fear_find> <fear_end>
2| <fear_of> <fear_gone> <fear_where> <fear_talk> <fear_go> <fear_find> <gladly:pal,hero>
2| <fear_of> <fear_gone> <fear_where> <fear_talk> <fear_go> <fear_find> <fear_end>

fear_of:
3| But {hero} was afraid of {fear}.
2| There was only one thing that {hero} did not like. ^{he} was afraid of {fear}.
2| "Are you afraid of {fear}?" <asks:pal>. "A little," <answers:hero>. But {hero} was very much afraid of
  {fear}.

fear_gone:
3| ^<when> {petname} ran away. {petname} was a {fur} {pet} and belonged to {pal}. <sad:pal>
2| {pal} had a {fur} {pet} named {petname}. ^<when> {petname} was gone. <sad:pal>

fear_where:
3| "{petname} must be {place.in} the {air} {place}," <says:pal>. {hero} thought of {fear}.
2| Somebody had seen the {pet} {place.in} the {air} {place}. "And what about {fear}?" <asks:hero>.

fear_talk:
3| "I was once afraid of {fear} too," said {his} {kin}. "Just sing and think of {petname}."
2| "To be brave is to be afraid of {fear} and still to go on," said {his} {kin}. "Think of {petname}, {hero}."
2| ^{his} {kin} gave {hero} a {adj} {thing}. "With the {adj} {thing} you need not fear {fear}," said {his}
  {kin}.

fear_go:
3| [!thing] So {hero} sang and <went> to the {air} {place}. {pal} held {his} hand.
3| [thing] {hero} held the {adj} {thing} and <went> to the {air} {place} with {pal}.
2| [!thing] At the {air} {place} {hero} shook. Then {he} thought of {petname} and forgot about {fear}.
2| [thing] At the {air} {place} {hero} looked at the {adj} {thing} and forgot about {fear}.

fear_find:
3| ^{place.in} the {air} {place}, something {pet.sound}. It was {petname}! {hero} gave the {fur} {pet} some
  {pet.food}, and {petname} came out.
2| "{petname}, where are you?" <says:hero>. The {fur} {pet} {pet.sound} {place.in} the {air} {place}, and
  {pal} ran to {petname}.

fear_end:
3| "You were not afraid of {fear}, {hero}," <says:pal>. "I was," <answers:hero>, "but {petname} needed me."
  <friendsend>
2| {pal} hugged {petname}, and {petname} {pet.sound}. From that day on, {hero} was no longer afraid of
  {fear}. <gladly:pal,hero>
2| And {fear}? {hero} had forgotten all about {fear}. <gladly:pal,hero>

stage:
2| <stage_plan> <stage_part> <stage_practice> <stage_fright> <stage_show>
2| <stage_plan> <stage_part> <stage_practice> <stage_help> <stage_show>
1| <stage_plan> <stage_practice> <stage_fright> <stage_help> <stage_show>

stage_plan:
3| ^<when> the school of {vill} planned a show, and {hero} was to play the {far}.
2| There was to be a show in {vill}. "You will be the {far}, {hero}," said {elder} the {job}.

stage_part:
3| The {far} wore a {fabric} {cloth} and had to say, "I live in the {far.home} and eat {far.food}."
2| "The {far} lives in the {far.home} and eats {far.food}," <says:elder>. {hero} got a {fabric} {cloth} to
  wear.

stage_practice:
3| {hero} and {pal} practised {place.in} the {air} {place}. {hero} {far.sound} like a {far}, and {pal}
  clapped.
2| Every day {hero} put on the {fabric} {cloth} and {far.sound} {place.in} the {air} {place}.

stage_fright:
3| On the day of the show, {hero} stood there in the {fabric} {cloth}. All the people of {vill} looked at
  the {far}. {hero} could not say a word.
2| Then the evening came. {hero} put on the {fabric} {cloth}, but {he} forgot what the {far} had to say.
  <sad:hero>

stage_help:
3| "Think of the {air} {place}," whispered {pal}. "I live in the {far.home}."
2| {pal} sat in the first row and {far.sound} like a {far}, to help. {hero} thought of the {air} {place} and
  smiled.

stage_show:
3| "I live in the {far.home} and eat {far.food}!" <says:hero>. Then the {far} {far.sound}, and everybody in
  {vill} clapped. <gladly:hero,pal>
2| Then {hero} looked at {pal} and remembered it all, the {far.home} and the {far.food}. "What a fine
  {far}," said {elder}. <gladly:hero,pal>

sick:
2| <sick_ill> <sick_wish> <sick_ask> <sick_give> <sick_end>
2| <sick_ill> <sick_wish> <sick_way> <sick_give> <sick_end>

sick_ill:
3| ^<when> {pal} was ill and had to lie in bed. <sad:hero>
2| ^<when> {pal} did not come to play {game}. "{pal} is ill," said {elder} the {job}.

sick_wish:
3| "What would you like, {pal}?" <asks:hero>. "Some {taste} {food} and my {adj} {thing}," <answers:pal>.
  "The {adj} {thing} is {place.in} the {air} {place}."
2| {pal} wished for two things, some {taste} {food} and the {adj} {thing} that lay {place.in} the {air}
  {place}.

sick_ask:
3| ^{his} {kin} packed the {taste} {food} in a basket. Then {hero} found the {adj} {thing} {place.in} the
  {air} {place}.
2| "I will get you the {adj} {thing}," <says:hero>. First {he} got the {taste} {food} from {his} {kin}, and
  then the {adj} {thing} from the {air} {place}.

sick_way:
3| ^{place.in} the {air} {place} sat a {fur} {pet}. It {pet.sound} and smelled the {taste} {food}. "No, the
  {food} must go to {pal}," <says:hero>. ^{he} gave the {fur} {pet} some {pet.food} and took the {adj}
  {thing}.
2| The way was long. {hero} looked {place.in} the {air} {place} until {he} saw the {adj} {thing}.
2| A {fur} {pet} had the {adj} {thing}. "Please give me the {thing}, because {pal} is ill," <says:hero>. The
  {fur} {pet} {pet.sound} and let it fall.

sick_give:
3| {hero} <went> back to {pal}. "Here are the {taste} {food} and your {adj} {thing}," <says:hero>.
2| From the {air} {place} {hero} <went> back to {pal}. {pal} ate the {taste} {food} and held the {adj}
  {thing}.

sick_end:
3| The next day {pal} was well again. <gladly:pal,hero> <friendsend>
2| {pal} smiled for the first time. "I like the {taste} {food} and the {thing}, but you are the best
  medicine, {hero}." <gladly:hero,pal>
2| "Now tell me a story," <says:pal>. And {hero} told {pal} about the {far} in the {far.home} that
  {far.sound} for {far.food}. <gladly:pal,hero>
"""
