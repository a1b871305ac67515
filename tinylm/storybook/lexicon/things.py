"""Things: what can be carried and wished for, what they look like, tools and the trouble they end, food."""

THINGS = """ball, kite, doll, key, lantern, bell, boat, box, cup, spoon, ring, button, coin, marble, mug,
lamp, basket, mirror, shell, stone, teapot, wagon, puppet, rattle, compass, locket, comb, brush, fan, globe,
jar, jug, kettle, medal, necklace, bracelet, pebble, pencil, plate, puzzle, saucer, spade, spinning top, star,
sword, thimble, toolbox, train, tray, vase, wand, watch, windmill, rocket, rocking horse, robot, racket,
ruler, bead, boomerang, bottle, bowl, bracket, brooch, bucket, buckle, candlestick, cane, casket, chain,
charm, chime, clock, crown, crystal, cube, cymbal, dish, domino, flask, fork, frame, goblet, gong, handbell,
helmet, hook, hoop, hourglass, inkwell, kaleidoscope, ladle, magnet, mallet, mask, model, music box, ocarina,
paddle, paintbrush, paperweight, pendant, pipe, pitcher, pot, propeller, pulley, pyramid, scooter, shield,
signet, skittle, sled, slate, snow globe, soldier, spyglass, stamp, statue, submarine, tambourine, tea caddy,
telescope, tile, tin, tiara, toy train, triangle, trinket, tugboat, urn, wheel, wreath, abacus, acorn cup,
anchor, arrow, badge, bat, birdcage, dart, easel, figurine, flowerpot, gadget, jewel, keyring, magnifying
glass, marionette, moneybox, nutcracker, padlock, pinwheel, sailboat, seashell, teacup, tricycle, unicycle,
walking stick, weathervane, wristwatch, mouse on wheels, bookmark, diary, atlas, notebook, calendar, pinecone,
feather pen, paintbox, hairbrush, lunchbox, keepsake, trophy, periscope, barometer, thermometer, butter dish,
sugar bowl, egg timer, napkin ring, candle holder, toy castle, toy horse, sewing box, pencil case, cuckoo
clock, storybook, scrapbook, postcard, photograph, picture, map, crayon, chessboard, torch, flashlight, tin
whistle, hand drum, toy farm, toy bear, rag doll, skipping rope, jigsaw"""

LOOKS = """red, blue, green, yellow, shiny, little, old, golden, silver, wooden, purple, orange, black, white,
brown, pink, striped, painted, tiny, round, spotted, new, grey, scarlet, crimson, turquoise, violet, copper,
ivory, emerald, bronze, brass, amber, coral, indigo, maroon, navy, lavender, mustard, rosy, lilac, beige,
lemon, ruby, sapphire, pearly, speckled, checkered, dotted, starry, sparkling, glittering, gleaming, polished,
dusty, faded, pale, plain, fancy, pretty, lovely, beautiful, fine, handsome, dainty, crooked, heavy, light,
ancient, worn, scratched, chipped, dented, mended, precious, magic, strange, funny, odd, unusual, simple,
special, favourite, carved, engraved, enamelled, lacquered, gilded, jewelled, glossy, smooth, rough, bumpy,
knobbly, curved, twisted, slender, slim, stout, solid, strong, splendid, wonderful, marvellous, charming,
elegant, delicate, rare, secret, royal, homemade, handmade, rainbow, zigzag, flowery, glowing, dazzling,
shimmering, twinkling, silvery, coppery, creamy, ebony, jade, cherry, peachy, teal, bright, dark, mottled,
marbled, freckled, rusty, mysterious, perfect, enormous, miniature, musical, gorgeous, neat, quaint,
treasured, valuable, vivid, weathered, wobbly, swirly, wavy, patterned, tinted, varnished, waxed, walnut,
oaken, pine, bamboo, iron, steel, pewter, clay, porcelain, glass"""

CLOTHES = """scarf, coat, hat, cap, shawl, cloak, jacket, sweater, dress, apron, bonnet, cape, vest,
waistcoat, jumper, cardigan, sash, skirt, shirt, gown, robe, poncho, headscarf, nightcap, dressing gown,
raincoat, parka, tunic, bathrobe, beret, hood, muffler, anorak, overcoat, pullover, kilt, kimono, frock,
blouse, pinafore, stole, mantle, jerkin, fleece, sarong, sombrero, turban, bobble hat, straw hat, snood,
costume, smock, collar, nightgown, jersey, cloche, sunhat"""

FABRICS = """woollen, soft, warm, silk, cotton, velvet, fluffy, knitted, patched, cosy, thick, thin, linen,
lace, satin, fuzzy, woven, embroidered, quilted, tartan, flannel, felt, furry, frilly, ragged, tattered,
crumpled, wrinkled, shaggy, long, silky, velvety, feathery, downy, fringed, padded, hemmed, pleated,
tasselled, crocheted, stitched, homespun, baggy, floppy, snug, airy, colourful, flowered, denim, corduroy,
canvas, tweed, muslin, cashmere, chequered, ribbed"""

TROUBLES = {
    "rope": "a deep ditch/swing across, a steep bank/climb up, a muddy slope/pull themselves up",
    "ladder": "a high wall/climb over, a tall fence/get over, a locked gate/go over",
    "saw": "a fallen tree/cut a way through, a great oak branch/cut a gap in, a thorny trunk/saw through",
    "shovel": "a heap of snow/dig through, a pile of sand/dig past, a landslide/dig a way past",
    "broom": "a carpet of broken glass/sweep a way through, a floor of nutshells/sweep a way through",
    "axe": """a wall of brambles/chop through, a thicket of thorns/chop through, a barricade of branches/chop
    through""",
    "plank": """a cold stream/walk over, a broken bridge/get across, a wide puddle/cross, a swampy
    patch/cross""",
    "lantern": """a dark tunnel/find the way through, a gloomy cave/walk through, a black forest/see the way
    through""",
    "pole": "a wet ditch/vault over, a boggy meadow/feel the way across, a shallow brook/vault over",
    "raft": "a wide river/float across, a flooded field/float over, a blue lagoon/float across",
    "boat": "a big lake/row across, a quiet bay/row across, a slow canal/row along",
    "key": "an iron door/open, a wooden gate/unlock, a padlocked hatch/unlock",
    "crowbar": "a rotten door/force open, a stuck trapdoor/lift, a heavy boulder/roll aside",
    "rake": "a drift of leaves/clear away, a tangle of weeds/clear, a hill of hay/comb through",
    "umbrella": "a sudden shower/keep dry in, a hailstorm/keep safe in, a dripping grotto/stay dry in",
}

FOODS = {
    "fruit": """apples, plums, pears, strawberries, cherries, grapes, peaches, oranges, bananas, berries,
    melon, apricots, blackberries, blueberries, cranberries, gooseberries, raspberries, mangoes, pineapple,
    tomatoes, watermelon, nectarines, tangerines, redcurrants, greengages, mulberries, pomegranates, kiwis,
    grapefruit, clementines""",
    "baked": """cake, cookies, bread, pancakes, pie, biscuits, muffins, toast, gingerbread, scones, waffles,
    buns, cinnamon rolls, crackers, crumble, cupcakes, doughnuts, flapjacks, pretzels, shortbread, tarts,
    rolls, meringues, brownies, crumpets, macaroons, strudel, croissants, bagels, dumplings""",
    "cooked": """soup, porridge, rice, stew, noodles, omelette, pasta, potatoes, pumpkin, sausages,
    spaghetti, macaroni, meatballs, mushrooms, ravioli, cabbage, broccoli, spinach, parsnips, lentils,
    chestnuts, corn, oatmeal, turnips, carrots, eggs, chicken, fish, beans, peas""",
    "treat": """chocolate, honey, jam, cheese, pudding, custard, fudge, jelly, marmalade, toffee,
    caramel, marzipan, nougat, yoghurt, popcorn, raisins, almonds, hazelnuts, walnuts, peanuts, coconut,
    syrup, trifle, lollipops, liquorice, sherbet, marshmallows, pralines, peppermints, lemonade,
    butterscotch, candyfloss""",
}

TASTES = {
    "fruit": """sweet, fresh, ripe, juicy, red, delicious, sour, sugary, dried, candied, chilled, luscious,
    plump, tangy""",
    "baked": """warm, fresh, tasty, golden, crispy, crunchy, buttery, sticky, crumbly, delicious, toasted,
    dainty, iced""",
    "cooked": """hot, tasty, steaming, salty, spicy, creamy, buttery, roasted, peppery, smoky, tender,
    wholesome, nourishing""",
    "treat": """sweet, delicious, creamy, sticky, nutty, yummy, minty, chewy, mouthwatering, homemade, soft,
    heavenly, scrumptious""",
}

DISHES = """soup/pot/stirred/savoury, apple pie/bowl/baked/sweet, stew/pot/cooked/savoury,
bread/bowl/baked/savoury, porridge/pan/stirred/sweet, rice pudding/dish/steamed/sweet,
jam/kettle/boiled/sweet, salad/bowl/tossed/savoury, plum cake/tin/baked/sweet, risotto/pan/simmered/savoury,
lasagne/dish/layered/savoury, chowder/kettle/warmed/savoury, goulash/cauldron/simmered/savoury,
curry/wok/seasoned/savoury, crumble/tin/sprinkled/sweet, trifle/bowl/layered/sweet, punch/jug/mixed/sweet,
broth/cauldron/boiled/savoury, pizza/tin/rolled/savoury, sauce/saucepan/whisked/savoury,
gravy/saucepan/thickened/savoury, fudge/saucepan/melted/sweet, gingerbread/tin/kneaded/sweet,
custard/saucepan/whisked/sweet"""

GOODS = {
    "sweet": """flour, butter, sugar, milk, eggs, honey, cream, cinnamon, lemons, raisins, nutmeg, vanilla,
    oats, ginger, cloves, cocoa, almonds, currants, apples, pears, plums, limes, buttermilk, treacle,
    cherries, oranges, walnuts, strawberries, figs, dates, hazelnuts, molasses, apricots, blackberries""",
    "savoury": """salt, onions, carrots, pepper, garlic, parsley, cheese, tomatoes, beans, mushrooms, leeks,
    celery, thyme, basil, rosemary, mint, vinegar, mustard, oil, barley, peppers, chives, dill, bay leaves,
    saffron, paprika, peas, turnips, beetroot, spinach, corn, potatoes, cabbage, lentils, olives, marjoram,
    fennel, tarragon""",
}

DISH_TASTES = {
    "sweet": "sweet, delicious, tasty, creamy, sugary, sticky, warm, golden, fruity, spicy, heavenly",
    "savoury": """tasty, hot, delicious, salty, spicy, peppery, steaming, rich, hearty, tangy, wholesome,
    thick""",
}

BUILDS = """raft/saw, treehouse/hammer, birdhouse/hammer, bench/saw, kennel/saw, swing/rope, cart/wrench,
bridge/plank, snowman/shovel, sandcastle/spade, pond/shovel, fence/mallet, shelf/drill, table/plane, rabbit
hutch/saw, tent/mallet, kennel roof/spanner, scarecrow/pitchfork, den/axe, ladder/chisel, henhouse/pliers,
stage/screwdriver, wigwam/knife, wall/trowel, dam/spade, stool/chisel, signpost/drill, trellis/pliers,
seesaw/plane, tunnel/pickaxe, igloo/trowel, maze/shears, arbour/shears, catapult/spanner, beehive/file,
greenhouse/screwdriver, well/pickaxe, dovecote/file"""

INSTRUMENTS = """flute, drum, fiddle, guitar, violin, trumpet, piano, harp, banjo, horn, whistle, cello, lute,
mandolin, tuba, clarinet, accordion, bugle, oboe, ukulele, zither, xylophone, trombone, concertina, saxophone,
bassoon, mouth organ, cornet"""

RUGS = """blanket, rug, quilt, cushion, pillow, carpet, mat, bedspread, tablecloth, curtain, eiderdown, duvet,
tapestry, towel, sail, flag, banner, coverlet, bolster, throw, tarpaulin, picnic cloth"""

WILD = """berries, mushrooms, nuts, herbs, acorns, chestnuts, blackberries, firewood, flowers, pinecones,
raspberries, hazelnuts, blueberries, violets, elderberries, nettles, ferns, feathers, conkers, pebbles,
primroses, cowslips, moss, twigs, clover"""
