"""Words without consequence: how things are done, felt and said."""

MANNERS = """quickly, quietly, softly, gently, happily, carefully, bravely, loudly, kindly, proudly, gladly,
calmly, eagerly, shyly, warmly, politely, patiently, cheerfully, firmly, boldly, swiftly, silently, sweetly,
briskly, brightly, excitedly, fondly, gracefully, gratefully, honestly, hopefully, hurriedly, joyfully,
lightly, merrily, neatly, playfully, promptly, rapidly, smoothly, steadily, tenderly, thoughtfully, wisely"""

GLAD = """happy, glad, proud, cheerful, delighted, pleased, merry, joyful, thankful, content, grateful,
excited, relieved, peaceful, thrilled, overjoyed, lighthearted, jolly, satisfied, hopeful, comforted,
blissful, lucky, gleeful, jubilant"""

SAD = """sad, worried, unhappy, upset, miserable, lonely, gloomy, sorry, disappointed, wistful, troubled,
anxious, helpless, downcast, tearful, lost, hopeless, ashamed, confused, puzzled, sorrowful, glum, bitter,
dismayed, uneasy, forlorn, wretched, mournful, desperate, dejected"""

JUNK = """an old shoe, a dead leaf, some dust, a broken cup, a feather, two acorns, a ball of wool, a rusty
nail, some string, a torn map, a candle end, a button without a thread, three beetles, a cracked egg cup, a
lost mitten, a bent spoon, an empty sack, a crust, a paper hat, a sleepy moth, some cobwebs, a bald tennis
ball, a birthday card, a ticket, a walking boot, an odd sock, a postcard, a rubber duck, a jam lid, a snail
shell, an apple core, a pocket calendar, a dry sponge, some crumbs, a matchbox, a toothbrush, a wig, some
marbles, a hairpin, a corkscrew, a magazine, an umbrella handle"""

LUCK = """Hooray, Hurrah, Wonderful, Splendid, Bravo, Excellent, Wow, Goodness, My word, Oh my, Yippee, Golly,
Good heavens, How lovely, What luck, What joy, How nice, Thank goodness, Marvellous, Fantastic, Magnificent,
Terrific, Superb, Gosh, What a day, Dear me, How delightful"""

GOING = """walked, ran, hurried, went, skipped, marched, rushed, raced, tiptoed, wandered, strolled, crept,
hopped, dashed, trotted, climbed, stepped, jogged, scrambled, trudged, hiked, sped, scampered, plodded,
bounded, sneaked, strode, roamed, rambled, ambled, darted, shuffled"""

SAYING = """cried, called, whispered, exclaimed, declared, announced, remarked"""

LIKING = """loved, liked, adored, treasured, cherished, prized, admired, valued, enjoyed, fancied"""

TREATS = """hug, kiss, smile, pat, wave, song, poem, drawing, flower, wink, cuddle, curtsy, ribbon, sweet,
sticker, balloon, postcard"""

NICE = """lovely, pretty, fine, fascinating, wonderful, tempting, interesting, exciting, amusing,
delightful"""

SADLY = """slowly, sadly, wearily, anxiously, deeply, bitterly, miserably, gloomily, silently, hopelessly,
heavily"""

CHEERS = """happy as a king, proud as a peacock, free as a bird, light as a feather, merry as a cricket,
bright as a star, playful as a kitten, cheerful as a robin, happy as a lark, pleased as punch, warm as toast,
happy as a clam, fresh as a daisy, snug as a bug, jolly as a sailor, glad as a queen"""

PALLORS = """white as chalk, pale as the moon, cold as ice, silent as the snow, still as a statue, quiet as a
mouse, pale as paper, limp as a rag, gloomy as a rainy day, lonely as a cloud, grey as ashes, miserable as a
wet hen"""

SPEEDS = """quick as a hare, fast as the wind, swift as an arrow, nimble as a goat, quick as lightning, swift
as a deer, fast as a train, light as a swallow, quick as a wink, fast as a rocket, fleet as a fox, speedy as a
greyhound"""
