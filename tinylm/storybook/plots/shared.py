"""Openings, endings, talk and feelings that all plots share."""

PLOTS: dict[str, int] = {}

RULES = """
story:
<opening> <plot>

opening:
3| Once upon a time there was a {trait} {hero.kind} named {hero}. <company>
1| Once there was a {trait} {hero.kind} named {hero}. <where> <company>
4| In {vill} there lived a {trait} {hero.kind} called {hero}. <company>
3| {hero} was a {trait} {hero.kind} from {vill}. <company>
2| Long ago, a {trait} {hero.kind} called {hero} lived in a {home} near {vill}. <company>
2| Everybody in {vill} knew {hero}, because no {hero.kind} was as {trait} as {hero}. <company>
2| This is a story about {hero}, a {trait} {hero.kind} who lived in {vill}. <company>

where:
3| ^{he} lived in {vill}.
2| ^{he} lived with {his} {kin} in {vill}.
2| ^{his} home was a {home} in {vill}.

company:
4| ^{he} had a {ptrait} {rel} named {pal}.
4| ^{his} {rel} {pal} was {ptrait}.
3| {hero} and {his} {rel} {pal} were always together.
3| ^{he} often played {game} with {pal}, {his} {rel}.
2| {hero} loved to {hobby.do}, and so did {pal}, {his} {rel}.
2| {hero} loved {hobby}, and {pal}, {his} {rel}, loved it too.
2| {hero} liked {hobby}, but {his} {rel} {pal} liked {phobby} better.

when:
5| one {weather} {time}
2| one {date}

says:
8| said {$1}
2| {*saying} {$1}
1| {$1} said {*manner}

answers:
6| said {$1}
3| answered {$1}
2| replied {$1}
1| {$1} answered {*manner}

asks:
6| asked {$1}
2| {$1} asked
1| {$1} wanted to know

went:
5| {*going}
1| {*going} {*manner}

danced:
danced
laughed out loud
clapped {$1.his} hands
could hardly speak
began to sing

gladly:
4| {$1} felt {*glad}.
2| {$1} was {*glad}.
2| {$1} was as {*cheer}.
2| {$1} was so {*glad} that {$1.he} <danced:$1>.
2| "{*luck}!" <says:$1>.
2| {$1} gave {$2} a {*treat}.
2| {$1} hugged {$2}.

kingladly:
3| ^{his} {kin} felt {*glad}.
2| ^{his} {kin} hugged {$1}.
2| "{*luck}!" said {his} {kin}.
2| ^{his} {kin} gave {$1} a {*treat}.

sad:
4| {$1} felt {*sad}.
2| {$1} was so {*sad} that {$1.he} cried.
2| {$1} began to cry.
2| {$1} was as {*pallor}.
2| {$1} sat down and sighed {*sadly}.
1| {$1} hung {$1.his} head.

friendsend:
2| From then on, {hero} and {pal} shared everything.
3| Everybody in {vill} was glad that {hero} had a {rel} like {pal}.
3| And in all {vill} there were no better friends than {hero} and {pal}.
3| [ptrait] {hero} was as {trait} as ever, and {pal} was as {ptrait} as ever.
3| [weather] It had been a {weather} day, but a good one.
3| [hobby] {hero} still liked {hobby}, but {he} liked {pal} even more.
3| [home] Back in the {home}, {hero} told {his} {kin} all about {pal}.
3| "You are the best {rel} in {vill}," {hero} told {pal}.
2| After that, {pal} and {hero} played {game} every day.
2| {hero} knew that a good {rel} is worth more than gold.
2| And {hero} never forgot how {ptrait} {pal} had been.
2| In the evening {hero} told {his} {kin} about {pal}, and {his} {kin} smiled.
2| ^{hero} and {pal} walked home through {vill}, hand in hand.

thingend:
3| That night {hero} dreamed of the {adj} {thing}.
3| And the {adj} {thing} stayed {spot.in} the {spot} ever after.
2| From then on, {hero} took good care of the {adj} {thing}.
2| "I will always look after the {adj} {thing}," <says:hero>.
2| And if you come to {vill}, {hero} will show you the {adj} {thing}.
2| Even today, people in {vill} talk about {hero} and the {adj} {thing}.

end:
5| <thingend>
4| <friendsend>
"""
