"""Animals and far dreams: a stray animal, a runaway from the circus, a toy that floats away, a secret den."""

PLOTS = {"stray": 4, "circus": 3, "adrift": 3, "den": 3}

RULES = """
stray:
2| <stray_find> <stray_name> <stray_feed> <stray_owner> <stray_back> <stray_end>
2| <stray_find> <stray_name> <stray_kin> <stray_owner> <stray_back> <stray_end>
1| <stray_find> <stray_name> <stray_feed> <stray_kin> <stray_owner> <stray_end>

stray_find:
3| ^<when> {hero} and {pal} found a {fur} {pet} {place.in} the {air} {place}. The {fur} {pet} {pet.sound}.
2| ^<when> something {pet.sound} {place.in} the {air} {place}. It was a {fur} {pet}. "Come quickly, {pal},"
  <says:hero>.

stray_name:
3| "I will call it {petname}," <says:hero>. "That is a good name for a {fur} {pet}," <answers:pal>.
2| They named the {fur} {pet} {petname}, and {petname} followed them home.

stray_feed:
3| {hero} gave {petname} some {pet.food}, and {pal} made a bed for {petname} in the {shed}.
2| {petname} ate a lot of {pet.food} and slept in the {shed}. <gladly:hero,pal>

stray_kin:
3| "Somebody will miss the {fur} {pet}," said {his} {kin}. {hero} looked at {petname}. <sad:hero>
2| "May we keep {petname}?" <asks:hero>. "First you must ask whose {pet} it is," said {his} {kin}.

stray_owner:
3| So they asked all over {vill}. "I lost it {place.in} the {air} {place}," said {elder} the {job}. "It
  lives in the {pet.home} behind my house."
2| The next day {elder} the {job} came by. "I am looking for my {fur} {pet}," said {elder}. "Have you been
  to the {air} {place}?"

stray_back:
3| {hero} stroked {petname} {manner}. "Here is {petname}, {elder}," <says:hero>. {petname} {pet.sound} and
  sat down beside {hero}.
2| [shed] It was hard, but {pal} fetched {petname} from the {shed}. {petname} {pet.sound}, and {hero} cried
  a little.

stray_end:
3| "Come and see {petname} every {time}," said {elder}. So every {time} {hero} and {pal} bring {petname}
  some {pet.food}.
2| "You found {petname} {place.in} the {air} {place}, so {petname} belongs to you too," said {elder} to
  {hero} and {pal}. <friendsend>
2| {elder} saw it. "{petname} likes you better than me, {hero}. Keep the {fur} {pet}," said {elder}.
  <gladly:hero,pal>

circus:
2| <circus_come> <circus_gone> <circus_find> <circus_calm> <circus_end>
2| <circus_come> <circus_gone> <circus_find> <circus_calm> <circus_call> <circus_end>

circus_come:
3| ^<when> a circus came to {vill}. The best of all was a {fur} {far} named {petname}.
2| ^<when> {hero} and {pal} went to the circus in {vill}. They saw {petname}, a {fur} {far} from the
  {far.home}.

circus_gone:
3| But at night {petname} ran away. "Who has seen a {fur} {far}?" asked {elder}, who looked after the
  animals. Everybody in {vill} was afraid of the {far}.
2| The next day {elder}, who looked after the animals, ran through {vill}. "The {far} is gone! {petname} is
  gone!" People shut their doors.

circus_find:
3| {hero} and {pal} <went> to the {air} {place}, and something {far.sound} there. It was {petname}!
2| "Look {place.in} the {air} {place}," <says:pal>. There stood the {fur} {far} and {far.sound}.

circus_calm:
3| "{petname} is only hungry," <says:hero>, and gave the {far} some {far.food}. {petname} ate the {far.food}
  {manner}.
2| {pal} saw that {petname} was sad. "It dreams of the {far.home}," <says:pal>. {hero} sang {manner} for
  {petname} and found some {far.food}.

circus_call:
3| Then {pal} ran for {elder}, while {hero} stayed {place.in} the {air} {place} with {petname}.
  <gladly:elder,hero>
2| {elder} came to the {air} {place}. "You are not afraid of a {far}, {hero}?" <asks:elder>. "Not of
  {petname}," <answers:hero>.

circus_end:
3| That evening {hero} led {petname} home from the {air} {place}, and {pal} threw {far.food} to the {fur}
  {far}. <friendsend>
2| {elder} gave {hero} and {pal} a {adj} {thing}. <thingend>
2| In the end {elder} brought {petname} home to the {far.home}. "Think of the {air} {place}, {petname},"
  <says:hero>, and the {far} {far.sound} {manner}. <friendsend>

adrift:
2| <adrift_have> <adrift_float> <adrift_gone> <adrift_follow> <adrift_reach> <adrift_end>

adrift_have:
3| {hero} had made a {adj} toy boat and named it {petname}.
2| ^<when> {his} {kin} made a {adj} toy boat for {hero}. {hero} named the boat {petname}.

adrift_float:
3| {hero} and {pal} took {petname} to the stream {place.in} the {air} {place}. The {adj} boat floated well.
2| "Let {petname} swim," <says:pal>. They put the {adj} boat in the water {place.in} the {air} {place}.

adrift_gone:
3| But the water was fast, and {petname} floated away. "Come back, {petname}!" <says:hero>. The {adj} boat
  went on and on.
2| Suddenly {petname} was gone. "I saw the {adj} boat float to the {air2} {other}," <says:pal>. <sad:hero>

adrift_follow:
3| They ran along the water to the {air2} {other}. There {petname} was stuck, far from the bank.
2| By the {air2} {other} they saw the {adj} boat again. A {fur} {pet} sat on {petname} and {pet.sound}.

adrift_reach:
3| [!pet] {elder} the {job} stood {other.in} the {air2} {other} with a long stick. "Is {petname} yours,
  {hero}?" <asks:elder>. With the stick {elder} pulled {petname} out.
3| [pet] "Let us give it some {pet.food}," <says:pal>. The {fur} {pet} came for the {pet.food} and brought
  {petname} along.

adrift_end:
3| [pet] {hero} took {petname} home, and the {fur} {pet} came too. Now the {adj} boat {place.in} the {air}
  {place} had a captain. <friendsend>
3| [!pet] "Thank you, {elder}," <says:hero>, and {petname} was soon back {place.in} the {air} {place}.
  <friendsend>
2| {hero} tied {petname} to a string. The {adj} boat never left the {air} {place} again. <gladly:hero,pal>

den:
2| <den_find> <den_rule> <den_things> <den_third> <den_let> <den_end>

den_find:
3| ^<when> {hero} and {pal} found a secret den {place.in} the {air} {place}.
2| ^<when> {pal} showed {hero} a secret den. It was {place.in} the {air} {place}.

den_rule:
3| The secret word was "{seed}", and only those who said "{seed}" could come in.
2| "Let us have a secret word," <says:hero>. "How about {seed}?" <asks:pal>. So the secret word was {seed}.

den_things:
3| {hero} put a {adj} {thing} in the den, and {pal} brought a {fabric} {rug} to sit on.
2| They sat on a {fabric} {rug} and played {game} with a {adj} {thing}.

den_third:
3| Then {third} came to the {air} {place}. "What is the word?" <asks:hero>. {third} did not know it and went
  away. <sad:third>
2| {third} followed them to the {air} {place}. "May I sit on the {fabric} {rug} too?" <asks:third>. "You
  have to know the word," <answers:pal>. <sad:third>

den_let:
3| {hero} looked at the {adj} {thing} and had no fun any more. "{third} is all alone," <says:pal>. So {hero}
  whispered "{seed}" to {third}.
2| A {fur} {pet} came to {third} and {pet.sound}. "Even the {fur} {pet} is sorry for {third}," <says:pal>.
  "Say {seed}, {third}," <says:hero>.

den_end:
3| "^{seed}!" <says:third>. Now all three sat on the {fabric} {rug} and played with the {adj} {thing}.
  <gladly:third,hero>
2| {third} said {seed} and came in. The next day {third} brought some {taste} {food}, and all three ate the
  {taste} {food} on the {fabric} {rug}.
"""
