"""Living things and the sky: animals, pets, plants, weather, days."""

ANIMALS = """duck/quacked/bread/pond, dog/barked/bones/kennel, cat/meowed/fish/barn,
rabbit/sniffed/carrots/burrow, fox/yelped/berries/den, mouse/squeaked/cheese/hole, bird/sang/seeds/nest,
frog/croaked/flies/pond, owl/hooted/mice/tree, squirrel/chattered/nuts/tree, hen/clucked/corn/coop,
pony/neighed/hay/stable, lamb/bleated/grass/fold, goat/bleated/leaves/shed, pig/grunted/turnips/sty,
donkey/brayed/thistles/stable, kitten/purred/milk/basket, puppy/whined/biscuits/kennel,
hedgehog/snuffled/worms/hedge, sparrow/chirped/crumbs/nest, crow/cawed/cherries/nest,
goose/hissed/barley/pond, turtle/blinked/lettuce/pond, mole/snuffled/worms/tunnel, badger/grunted/roots/sett,
beaver/splashed/bark/lodge, otter/whistled/fish/holt, robin/twittered/worms/nest, swan/trumpeted/weeds/lake,
pigeon/cooed/peas/loft, calf/mooed/milk/byre, parrot/squawked/grapes/cage, hamster/squeaked/oats/cage,
foal/whinnied/clover/stable, chick/cheeped/grain/coop, raven/croaked/plums/tower,
tortoise/blinked/dandelions/shed, magpie/chattered/currants/nest, swallow/twittered/gnats/barn,
toad/croaked/slugs/ditch, hare/thumped/clover/meadow, weasel/hissed/eggs/woodpile, gosling/peeped/grass/pond,
duckling/peeped/duckweed/pond, piglet/squealed/apples/sty, wren/trilled/spiders/nest,
lark/warbled/seeds/field, woodpecker/drummed/beetles/tree, cuckoo/called/caterpillars/wood,
peacock/screamed/corn/garden, turkey/gobbled/grain/yard, rooster/crowed/maize/coop, bat/squeaked/moths/cave,
stork/clattered/frogs/chimney, heron/croaked/minnows/marsh, canary/trilled/seeds/cage,
starling/whistled/cherries/roof, thrush/warbled/snails/garden, finch/twittered/thistles/hedge,
jay/screeched/acorns/oak, dove/cooed/seeds/loft, falcon/shrieked/mice/cliff, marten/chattered/eggs/attic,
dormouse/snored/hazelnuts/hedge, shrew/squeaked/beetles/ditch, vole/squeaked/roots/bank,
raccoon/chattered/corn/attic, skunk/grunted/roots/log, chipmunk/chattered/seeds/log,
gopher/whistled/roots/burrow, mule/brayed/straw/stable, spaniel/barked/biscuits/basket,
poodle/yapped/biscuits/cushion, terrier/yapped/bones/kennel, sheepdog/barked/bones/farm, guinea
pig/whistled/parsley/hutch, budgie/chirped/millet/cage, collie/barked/bones/farm, tabby/purred/fish/barn,
beagle/howled/bones/kennel, parakeet/squawked/millet/cage, ferret/chuckled/eggs/hutch,
nightingale/sang/berries/thicket, bullfinch/piped/buds/hedge, partridge/churred/barley/field,
pheasant/clucked/acorns/wood, stoat/chirred/eggs/wall, dachshund/yapped/sausages/basket"""

FAR_ANIMALS = """camel/groaned/dates/desert, seal/barked/herrings/shore, monkey/jabbered/bananas/jungle,
elephant/trumpeted/melons/jungle, giraffe/hummed/leaves/plain, lion/roared/meat/den,
tiger/rumbled/meat/jungle, zebra/brayed/grass/plain, panda/grunted/bamboo/forest, koala/snored/leaves/tree,
kangaroo/coughed/grass/plain, penguin/honked/fish/iceberg, walrus/bellowed/clams/shore, wolf/howled/meat/den,
moose/bellowed/twigs/forest, reindeer/snorted/moss/forest, llama/hummed/hay/paddock, ox/lowed/hay/byre,
buffalo/snorted/grass/plain, pelican/flapped/fish/harbour, flamingo/honked/shrimps/lagoon,
ostrich/boomed/grass/plain, eagle/shrieked/fish/mountain, yak/grunted/grass/mountain,
alpaca/hummed/hay/paddock"""

FURS = """brown, white, black, grey, little, fat, thin, fluffy, spotted, old, young, hungry, clever, friendly,
sleepy, tiny, lame, wild, tame, lonely, frightened, funny, cheeky, greedy, plump, skinny, shaggy, speckled,
striped, cold, wet, muddy, proud, naughty, gentle, playful, silent, swift, slow, limping, shivering, lost,
stray, strange, rare, sooty, snowy, ginger, sandy, dappled, patchy, scruffy, whiskered, nosy, fidgety, fuzzy,
golden, reddish, timid, jumpy"""

PET_NAMES = """Biscuit, Pepper, Patch, Socks, Snowy, Rusty, Bramble, Nibbles, Pickle, Whiskers, Fluff, Buster,
Lucky, Smudge, Treacle, Mittens, Bubbles, Spot, Muffin, Nutmeg, Pip, Button, Ginger, Toffee, Sunny, Misty,
Shadow, Tiger, Bandit, Bingo, Bouncer, Brownie, Cinders, Clover, Cocoa, Cookie, Crumpet, Dandy, Dash, Dot,
Dusty, Fidget, Flash, Fudge, Gizmo, Hazel, Hopper, Jingle, Jumbo, Marble, Midge, Mopsy, Noodle, Nugget, Oreo,
Peanut, Pebbles, Pluto, Pogo, Poppet, Pudding, Puff, Quincy, Rags, Rascal, Ripple, Rollo, Scamp, Sherbet,
Skipper, Snuggles, Sparky, Speck, Sprout, Squeak, Tinker, Topsy, Trixie, Truffle, Tuppence, Twig, Velvet,
Waffles, Wiggles, Zippy"""

SEEDS = """carrot/carrots, pumpkin/pumpkins, bean/beans, pea/peas, cabbage/cabbages, onion/onions,
potato/potatoes, radish/radishes, turnip/turnips, melon/melons, tomato/tomatoes, lettuce/lettuces,
cucumber/cucumbers, leek/leeks, beetroot/beetroots, marrow/marrows, parsnip/parsnips, squash/squashes,
strawberry/strawberries, sunflower/sunflowers, rose/roses, tulip/tulips, daisy/daisies, lily/lilies,
pansy/pansies, poppy/poppies, violet/violets, daffodil/daffodils, bluebell/bluebells, marigold/marigolds,
lupin/lupins, snowdrop/snowdrops, crocus/crocuses, primrose/primroses, foxglove/foxgloves, hyacinth/hyacinths,
iris/irises, orchid/orchids, peony/peonies, petunia/petunias, zinnia/zinnias, geranium/geraniums,
hollyhock/hollyhocks, buttercup/buttercups, cornflower/cornflowers, dahlia/dahlias, aster/asters,
begonia/begonias, carnation/carnations, chrysanthemum/chrysanthemums, snapdragon/snapdragons,
cowslip/cowslips, gooseberry/gooseberries, raspberry/raspberries, artichoke/artichokes, pepper/peppers"""

WEATHERS = """sunny, windy, rainy, foggy, snowy, stormy, cloudy, misty, frosty, icy, hot, breezy, chilly,
drizzly, thundery, hazy, muggy, blustery, showery, slushy, sleety, wintry, dull, mild"""

TIMES = """morning, afternoon, evening, day, Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"""

DATES = """spring morning, summer day, autumn afternoon, winter evening, April morning, August evening,
October day, March afternoon, September morning, February afternoon, January day, July evening, November day,
December night, June morning, May evening"""
