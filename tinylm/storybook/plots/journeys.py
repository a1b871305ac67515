"""Journeys: a visit with an obstacle on the way, a message, a storm, a lost way."""

PLOTS = {"visit": 4, "storm": 3, "letter": 3, "astray": 3}

RULES = """
visit:
2| <visit_plan> <visit_pack> <visit_tool> <visit_trouble> <visit_solve> <visit_there>
2| <visit_plan> <visit_tool> <visit_trouble> <visit_solve> <visit_end>

visit_plan:
3| ^<when> {hero} and {pal} set out to visit {his} {kin} in {vill2}.
2| ^{his} {kin} in {vill2} was lonely. "Let us go to {vill2}," <says:hero>, and {pal} came along.

visit_pack:
3| They packed some {taste} {food} and a {fabric} {cloth} for {his} {kin}.
2| {hero} carried a {fabric} {cloth}, and {pal} carried some {taste} {food}. Both were for {his} {kin}.

visit_tool:
3| {elder} the {job} gave them a {tool}. "You will need the {tool}," said {elder}.
2| On the road they met {elder} the {job}. "Take my {tool} with you," said {elder}. {pal} took the {tool}.

visit_trouble:
3| Near the {air} {place} they came to {trouble}. "How shall we go on?" <asks:hero>.
2| But behind the {air} {place} there was {trouble}. "We shall never get to {vill2}," <says:pal>. <sad:hero>

visit_solve:
3| Then {hero} thought of the {tool}. With the {tool} they could {trouble.do} it, and soon the {air} {place}
  lay far behind them.
2| "We have the {tool} from {elder}!" <says:pal>. So they used the {tool} to {trouble.do} it. Then they left
  the {air} {place}.

visit_there:
3| In {vill2} {his} {kin} stood at the door. {hero} gave {kin.him} the {fabric} {cloth}, and {pal} gave
  {kin.him} the {taste} {food}. <kingladly:hero>
2| "{kin.call}, we are here!" <says:hero>. ^{his} {kin} put on the {fabric} {cloth}, and together they ate
  the {taste} {food}. <kingladly:pal>
2| When they came to {vill2}, {his} {kin} {*liking} the {fabric} {cloth} and the {taste} {food}.

visit_end:
3| On the way back they returned the {tool} to {elder}. "Did it help?" <asks:elder>. They told {elder} about
  {trouble}.
2| {hero} and {pal} told {his} {kin} about {trouble} and about {elder}, who had given them the {tool}.
  <friendsend>
2| "Without the {tool} we would not be in {vill2}," <says:pal>. <friendsend>

storm:
2| <storm_play> <storm_come> <storm_lose> <storm_animal> <storm_over>
1| <storm_play> <storm_come> <storm_lose> <storm_shelter> <storm_over> <end>
1| <storm_play> <storm_come> <storm_lose> <storm_shelter> <storm_animal> <storm_over>

storm_play:
3| ^<when> {hero} and {pal} played with a {adj} {thing} {place.in} the {air} {place}. {hero} wore a {fabric}
  {cloth}.
2| ^<when> they took a {adj} {thing} and a {fabric} {cloth} to the {air} {place}.

storm_come:
3| Then the sky turned black, and a storm began. "Run to the {air2} {other}, {pal}!" <says:hero>.
2| All at once there was a great storm. "Where can we hide?" <asks:pal>. "^{other.in} the {air2} {other},"
  <answers:hero>.

storm_lose:
3| They ran, but the storm took the {fabric} {cloth} away, and the {adj} {thing} stayed {place.in} the {air}
  {place}.
2| {pal} held the {fabric} {cloth} over both of them. The {adj} {thing} stayed {place.in} the {air} {place}.

storm_shelter:
2| They sat {other.in} the {air2} {other} and waited. "My {adj} {thing} is still {place.in} the {air}
  {place}," <says:hero>. <sad:hero>
2| It was dark {other.in} the {air2} {other}. {pal} was afraid, but {hero} told {pal} a story about a {far}
  in the {far.home}.

storm_animal:
3| Something {pet.sound}. A {fur} {pet} had come in from the storm. They let the {fur} {pet} sit between
  them and gave it some {pet.food}.
2| A {fur} {pet} was there too, and it shook with cold. {pal} stroked the {fur} {pet} until it {pet.sound}.

storm_over:
3| When the storm was over, they left the {air2} {other}. They went back to the {air} {place}, and there was
  the {adj} {thing}! <gladly:hero,pal>
2| [pet] At last the storm ended. {hero} found the {adj} {thing} {place.in} the {air} {place}, and the {fur}
  {pet} came home with {pal}.
2| [pet] After the storm the {adj} {thing} was broken, but nobody cried. "We are safe, and so is the {pet},"
  <says:pal>. The {fur} {pet} {pet.sound}.
1| [!pet] After the storm the {adj} {thing} was broken, but nobody cried. "We are safe, {hero}," <says:pal>.

letter:
2| <letter_from> <letter_to> <letter_way> <letter_lost> <letter_found> <letter_read>
1| <letter_from> <letter_way> <letter_lost> <letter_found> <letter_read> <friendsend>

letter_from:
3| ^<when> {his} {kin} gave {hero} a {adj} {thing} for {elder} the {job}. "Take it to {vill2}," said {his}
  {kin}.
2| ^<when> {hero} had to bring a {adj} {thing} to {elder} the {job} in {vill2}.

letter_to:
3| {pal} came along, and they <went> towards {vill2}.
2| "May I come with you to {vill2}?" <asks:pal>. "Yes, and you may hold the {adj} {thing}," <answers:hero>.

letter_way:
3| They rested {place.in} the {air} {place} and ate some {taste} {food}.
2| At the {air} {place} they met {third}, who gave them some {taste} {food}. They ate the {food} {place.in}
  the {air} {place}.

letter_lost:
3| When they went on, the {adj} {thing} was gone. "Did we leave it {place.in} the {air} {place}?"
  <asks:pal>. <sad:hero>
2| In {vill2} {hero} felt in {his} pocket. There was no {adj} {thing}! <sad:hero> "It must be {place.in} the
  {air} {place}," <says:pal>.

letter_found:
3| They ran back to the {air} {place}. A {fur} {pet} was eating the rest of the {taste} {food}, and the
  {adj} {thing} lay next to it. The {fur} {pet} {pet.sound}.
2| A {fur} {pet} came after them and {pet.sound}. It had the {adj} {thing}! They gave the {fur} {pet} the
  rest of the {taste} {food}.

letter_read:
3| So {elder} got the {adj} {thing} after all. "How kind of your {kin} to send it," said {elder}.
2| {elder} looked at the {adj} {thing} and was {*glad}. "I have waited so long for my {thing}," said {elder}
  to {hero} and {pal}.

astray:
2| <astray_go> <astray_far> <astray_lost> <astray_meet> <astray_lead> <astray_home>

astray_go:
3| ^<when> {hero} and {pal} went out to look for {wild}. "Do not go past the {air} {place}," said {his} {kin}.
2| "You may go as far as the {air} {place}," {his} {kin} told {hero} and {pal} <when>. They wanted to gather
  {wild}.

astray_far:
3| They found no {wild} there. So they went on, past the {air} {place}, and came to a {air2} {other}.
2| But the best {wild} were far behind the {air} {place}. They walked and walked to a {air2} {other}.

astray_lost:
3| Soon it was dark, and nobody knew the {air2} {other}. "We are lost," <says:pal>. <sad:hero>
2| Then the sun went down. "Which way is the {air} {place}?" <asks:pal>. Nobody could tell. <sad:pal>

astray_meet:
3| ^{other.in} the {air2} {other} sat a {fur} {pet}. It {pet.sound}. {pal} gave the {fur} {pet} some
  {pet.food}.
2| A {adj} lantern shone {other.in} the {air2} {other}. It belonged to {elder} the {job}. "Follow my {adj}
  lantern," said {elder}.

astray_lead:
3| [pet] The {fur} {pet} {*going} off, and they followed the {pet}. At last they saw the {air} {place}.
3| [elder] {elder} went first with the {adj} lantern, and {hero} and {pal} followed {elder} to the {air}
  {place}.

astray_home:
3| ^{his} {kin} was waiting {place.in} the {air} {place}. "I am sorry, {kin.call}," <says:hero>.
  <kingladly:hero>
2| From the {air} {place} they knew the way. "Next time we shall not go past the {air} {place}," {hero}
  promised {his} {kin}. <friendsend>
"""
