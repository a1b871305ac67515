"""Places: villages, spots out of doors and indoors with the word that says where, what they are like."""

VILLAGES = """Willowbrook, Greenhill, Applefield, Riverton, Stonebridge, Sunnydale, Maplewood, Oakham,
Ferndale, Birchville, Brookside, Cherryvale, Cloverdale, Cobbleton, Cornbury, Cranford, Dandelion Hill,
Deerwood, Dewdrop, Eastwick, Elmhurst, Fairhaven, Farley, Fiddleford, Foxley, Gladstone, Goosewell,
Harborough, Hartfield, Hazelton, Heatherton, Highmoor, Honeywell, Ivybridge, Kingsford, Lakeside, Larkspur,
Lindenau, Littleton, Longmeadow, Marshland, Meadowbank, Merrydown, Millbrook, Mistley, Moorside, Mossford,
Nettlebed, Northwick, Nutley, Otterbourne, Pebbleton, Pinewood, Plumstead, Primrose Lane, Puddleby,
Quarrytown, Ravenswood, Redcliff, Rosedale, Rushford, Sandybay, Seaview, Shellport, Silverlake, Snowdon,
Southgate, Springfield, Starwood, Swanlake, Thornbury, Underwood, Valleyford, Waterside, Westbourne, Wheatley,
Windmill Hill, Wintersea, Woodend, Yellowfield"""

OUTSIDE = {
    "tree": """willow/under, oak/under, apple tree/under, pear tree/under, cherry tree/under, chestnut
    tree/under, pine/under, birch/under, maple/under, beech/under, elm/under, fir/under, holly bush/behind,
    rose bush/behind, blackberry bush/behind, lilac/under, hazel/under, walnut tree/under, fig tree/under,
    poplar/under, juniper/behind, rowan/under, elder bush/behind, hawthorn/behind, yew/under, cedar/under,
    ash tree/under, spruce/under, larch/under, alder/under, palm/under, hedge/behind, plum tree/under,
    linden/under, sycamore/under, laurel/behind, lemon tree/under, olive tree/under, mulberry tree/under""",
    "built": """bridge/under, barn/behind, mill/behind, gate/behind, wall/behind, shed/behind, tower/behind,
    chapel/behind, boathouse/behind, greenhouse/behind, windmill/behind, lighthouse/behind, farmhouse/behind,
    stable/behind, church/behind, school/behind, bakery/behind, station/behind, market hall/behind,
    inn/behind, post office/behind, library/behind, museum/behind, theatre/behind, dovecote/under,
    henhouse/behind, doghouse/behind, archway/under, ruin/inside, castle/behind, hut/behind, caravan/under,
    pier/under, jetty/under, pavilion/behind, gazebo/inside, footbridge/under, dairy/behind, forge/behind,
    sawmill/behind, brickyard/behind, cowshed/behind, pigsty/behind, bench/under, statue/beside,
    fountain/beside, well/beside, bandstand/under, lamppost/beside, signpost/beside, letterbox/beside,
    monastery/behind, cottage/behind, town hall/behind, bell tower/behind, fire station/behind, harbour
    wall/behind, playhouse/inside, watchtower/inside""",
    "ground": """pond/beside, stream/beside, haystack/behind, rock/behind, log/inside, cave/inside, tree
    stump/beside, flower bed/beside, vegetable patch/beside, compost heap/behind, woodpile/behind,
    boulder/behind, waterfall/behind, spring/beside, brook/beside, river bend/beside, dam/beside,
    quarry/beside, sandpit/beside, orchard/inside, vineyard/inside, sand dune/behind, cliff/under,
    meadow/beside, lake/beside, ditch/inside, hill/behind, valley/inside, clearing/inside, marsh/beside,
    thicket/inside, rock pool/beside, gorge/inside, glade/inside, field/beside, beach/beside,
    puddle/beside""",
}

AIRS = {
    "tree": """old, big, tall, shady, crooked, hollow, lonely, leafy, gnarled, ancient, bent, giant,
    blooming, mossy, knotty, slender, swaying, whispering, split, prickly, fragrant, twisted, spreading,
    majestic, bushy, leaning, graceful, evergreen, rustling, flowering, towering, dark, young, withered""",
    "built": """old, big, little, white, red, quiet, empty, crumbling, broken, tall, green, grey, dusty,
    ruined, leaning, rusty, wooden, whitewashed, blue, yellow, haunted, forgotten, abandoned, battered,
    cracked, creaking, draughty, faded, grand, humble, lopsided, neglected, noble, peeling, shabby,
    tumbledown, unpainted, royal, famous, sleepy, weathered, mouldy, steep, northern, southern, eastern,
    western, painted, timbered, ivied""",
    "ground": """quiet, big, hidden, sunny, stony, windy, misty, sheltered, weedy, silent, gloomy, overgrown,
    peaceful, far, muddy, dripping, slippery, sloping, solitary, sparkling, spooky, sunken, enchanted, damp,
    windswept, frozen, secret, still, sandy, grassy, chilly, deep, green, nameless, lonely, distant,
    glittering""",
}

INSIDE = """bed/under, table/under, sofa/behind, cupboard/inside, wardrobe/inside, drawer/inside,
stairs/under, bookcase/behind, stove/behind, piano/behind, desk/under, armchair/behind, rug/under,
door/behind, curtain/behind, toy box/inside, laundry basket/inside, bathtub/inside, sink/under,
dresser/behind, trunk/inside, hat stand/behind, umbrella stand/inside, fireplace/beside, coal scuttle/inside,
clock case/inside, flour bin/inside, bread bin/inside, pantry/inside, larder/inside, cellar/inside,
attic/inside, broom closet/inside, mattress/under, pillow pile/under, rocking chair/under, bunk/under,
couch/behind, sideboard/behind, washing machine/behind, suitcase/inside, sewing box/inside, hamper/inside,
crib/under, screen/behind, plant pot/behind, radiator/behind, windowsill/under"""

HOMES = """cottage, house, farmhouse, cabin, hut, tower, mill, bakery, houseboat, flat, windmill, bungalow,
lighthouse, caravan, castle, inn, lodge, villa, chalet, tent, attic room, boathouse, schoolhouse, farm, shack,
mansion, palace, gatehouse, stone house, barn"""

SHEDS = """barn, shed, yard, kitchen, stable, hayloft, garden, cellar, garage, porch, workshop, woodshed,
playroom, outhouse"""
