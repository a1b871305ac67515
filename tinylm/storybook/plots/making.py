"""Making and growing: a garden, a present of cloth, music, a kite for the wind."""

PLOTS = {"garden": 4, "sewing": 3, "music": 3}

RULES = """
garden:
2| <garden_seed> <garden_plant> <garden_animal> <garden_guard> <garden_grow> <garden_end>
2| <garden_seed> <garden_plant> <garden_wait> <garden_animal> <garden_guard> <garden_grow>

garden_seed:
3| ^<when> {elder} the {job} gave {hero} one {seed} seed.
2| ^<when> {hero} got a {seed} seed from {his} {kin}. "Where shall I plant the {seed}?" <asks:hero>.

garden_plant:
3| {hero} planted the {seed} {place.in} the {air} {place}, and {pal} fetched water.
2| "Plant it {place.in} the {air} {place}," <says:pal>. So {hero} dug a hole there for the {seed}.

garden_wait:
3| Every {time} {hero} went to the {air} {place} and looked at the {seed}. "Grow well, {seed}," <says:hero>.
2| Days went by. {hero} watered the {seed} every {time}, and {pal} sang to it.

garden_animal:
3| But one {time} a {fur} {pet} stood {place.in} the {air} {place} and wanted to eat the {seed}. "Go away,
  {pet}!" <says:hero>.
2| Then a {fur} {pet} came and {pet.sound}. "It will eat our {seed}," <says:pal>. <sad:hero>

garden_guard:
3| "Give the {pet} some {pet.food}," <says:pal>. The {fur} {pet} ate the {pet.food} and left the {seed} alone.
2| {hero} hung a {adj} {thing} next to the {seed}. The {fur} {pet} was afraid of the {adj} {thing} and ran
  back to its {pet.home}.
2| {hero} and {pal} made a fence around the {seed}. Now the {fur} {pet} could only look at the {seed}, and
  ate {pet.food}.

garden_grow:
3| In summer there were many {seed.many} {place.in} the {air} {place}. <gladly:hero,pal>
2| The {seed} grew and grew. Soon the {air} {place} was full of {seed.many}. <gladly:hero,pal>

garden_end:
3| {hero} gave some {seed.many} to {pal}, some {seed.many} to {his} {kin}, and one to the {fur} {pet}.
  <friendsend>
2| [elder] "One seed, and now so many {seed.many}," said {elder}. {hero} brought {elder} a basket of
  {seed.many}. <friendsend>
2| "All these {seed.many} came from one {seed} seed," <says:hero>. And every {time} the {fur} {pet} came by
  and {pet.sound}.

sewing:
2| <sew_cold> <sew_none> <sew_ask> <sew_make> <sew_give>
1| <sew_cold> <sew_ask> <sew_make> <sew_give> <friendsend>

sew_cold:
3| ^<when> {hero} saw that {pal} was cold. {pal} had no {cloth}.
2| "I wish I had a {cloth}," said {pal} <when>.

sew_none:
3| {hero} wanted to make a {fabric} {cloth} for {pal}. But {he} did not know how to make a {cloth}.
2| "{pal} shall have a {fabric} {cloth}," thought {hero}. ^{he} looked {spot.in} the {spot}, but there was
  only {*junk}.

sew_ask:
3| So {he} <went> to {elder} the {job}. "Will you show me how to make a {fabric} {cloth}?" <asks:hero>.
  "Yes," said {elder}, "but you must {deed} for me."
2| {elder} the {job} knew all about it. "I will help you with the {fabric} {cloth} if you {deed}," said
  {elder}.

sew_make:
3| In the morning {hero} {deed.done}, and in the evening {he} sewed {manner}. {elder} showed {him} how.
  {hero} hid the {fabric} {cloth} {spot.in} the {spot}, so that {pal} would not see it.
2| {hero} {deed.done} and sewed, day after day. At night {he} hid the {fabric} {cloth} {spot.in} the {spot}.

sew_give:
3| At last {hero} took the {fabric} {cloth} from its place {spot.in} the {spot} and gave it to {pal}. "A
  {fabric} {cloth}! Who made it?" <asks:pal>. "I did, and {elder} helped me," <answers:hero>.
  <gladly:pal,hero>
2| "Look {spot.in} the {spot}, {pal}," <says:hero>. {pal} looked there and found the {fabric} {cloth}.
  <gladly:pal,hero> "{hero} {deed.done} for it," said {elder}.

music:
2| <music_hear> <music_wish> <music_get> <music_learn> <music_play>
1| <music_hear> <music_wish> <music_get> <music_noise> <music_play> <friendsend>
1| <music_hear> <music_wish> <music_get> <music_learn> <music_noise> <music_play>

music_hear:
3| ^<when> {elder} the {job} played a tune {place.in} the {air} {place}, on a {adj} <tool_of_music>.
2| ^<when> {hero} and {pal} heard music. {elder} the {job} sat {place.in} the {air} {place} with a {adj}
  <tool_of_music>.

tool_of_music:
{music}

music_wish:
3| "I want to play the {music} too," <says:hero>. "Come to the {air} {place} every {time}," said {elder}.
2| {hero} listened to the {music}. "Will you teach me the {music}, {elder}?" <asks:hero>. "Every {time}, if
  you wish," said {elder}.

music_get:
3| So every {time} {hero} sat {place.in} the {air} {place} and held the {adj} {music}.
2| From then on {hero} and {pal} went to {elder} every {time}. {hero} played the {adj} {music}, and {pal}
  listened.

music_learn:
3| At first the {music} sounded like a {far} that had lost its {far.food}. {pal} laughed. <sad:hero>
2| "You play like a {far}," <says:pal>. <sad:hero> "I could not play the {music} at first either," said
  {elder}.

music_noise:
3| "Go on, {hero}," said {elder}. {hero} played the {adj} {music} {manner}, every {time}, and slowly it grew
  better.
2| {hero} practised {manner}, and soon there was real music. Even a {fur} {pet} came to the {air} {place} to
  listen to the {music}.

music_play:
3| [far] Then there was a feast in {vill}. {elder} gave {hero} the {adj} {music}, and {he} played {manner}.
  "That was no {far}," <says:pal>, "that was {hero} with the {music}!"
3| [!far] Then there was a feast in {vill}. {elder} gave {hero} the {adj} {music}, and {he} played {manner}.
  "{hero}, nobody plays the {music} like you," <says:pal>.
2| One {time} {elder} was ill, and {hero} played the {adj} {music} {place.in} the {air} {place} all alone.
  All {vill} came. <gladly:elder,hero>
"""
