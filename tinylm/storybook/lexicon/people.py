"""People: names, kin, neighbours, trades, characters, what they like, fear and promise. Parts of an entry: a/b/c."""

GIRLS = """Mia, Lily, Anna, Emma, Sara, Lucy, Nora, Ella, Zoe, Ruby, Clara, Alice, Maya, Rosa, Tina, Molly,
Eva, Hannah, Julia, Nina, Sophie, Amy, Kate, Jane, Leah, Mary, Polly, Wendy, Greta, Heidi, Ida, Ivy, Jenny,
Katie, Laura, Lena, Linda, Lola, Maggie, Mona, Nelly, Olive, Paula, Penny, Rachel, Rita, Sally, Sandra, Susie,
Tess, Vera, Vicky, Wilma, Zara, Abby, Ada, Agnes, Bella, Betty, Bonnie, Carla, Carol, Cora, Daisy, Dora,
Edith, Elsa, Esther, Fay, Fiona, Flora, Freya, Gina, Gloria, Helen, Hilda, Holly, Irene, Iris, Jasmine, Jill,
Josie, Judy, June, Kim, Kira, Lotte, Luna, Mabel, Martha, Matilda, Megan, Millie, Naomi, Nadia, Olga, Pia,
Priya, Ramona, Selma, Tilda, Una, Yara"""

BOYS = """Tom, Ben, Sam, Max, Leo, Tim, Jack, Peter, Paul, Noah, Finn, Oscar, Adam, Henry, Oliver, Jacob,
Luke, Daniel, David, Simon, Felix, Hugo, Ivan, Jonas, Karl, Liam, Martin, Nico, Omar, Otto, Philip, Ralph,
Robin, Samir, Theo, Toby, Victor, Walter, Will, Alan, Albert, Ali, Andy, Anton, Arthur, Barney, Basil, Billy,
Bobby, Boris, Bruno, Carlos, Charlie, Colin, Conrad, Cyril, Dan, Dario, Dennis, Edgar, Eddie, Elias, Emil,
Eric, Ernest, Ethan, Fabian, Frank, Fred, George, Gilbert, Gregory, Gus, Harold, Harry, Harvey, Hassan,
Howard, Isaac, Jamal, Jasper, Jeremy, Jim, Joel, Joey, Juan, Kevin, Kofi, Lars, Leon, Louis, Manuel, Marco,
Mateo, Milo, Morris, Ned, Nathan, Olaf, Pablo, Pedro, Quentin, Ravi, Rufus"""

RELATIONS = {
    "girl": "best friend, sister, cousin, friend, neighbour, little sister, big sister, playmate",
    "boy": "best friend, brother, cousin, friend, neighbour, little brother, big brother, playmate",
}

KIN = """grandmother/she/Granny, grandfather/he/Grandpa, mother/she/Mama, father/he/Papa, aunt/she/Auntie,
uncle/he/Uncle, nanny/she/Nanny, godmother/she/Godmother, godfather/he/Godfather, stepfather/he/Daddy,
stepmother/she/Mummy"""

ELDERS = """Mrs Finch, Mr Brown, Mrs Potter, Mr Hill, Mrs Barley, Mr Wood, Mrs Applegate, Mr Bramble, Mrs
Clover, Mr Dale, Mrs Early, Mr Fern, Mrs Gray, Mr Hobbs, Mrs Ingle, Mr Jolly, Mrs Kettle, Mr Lark, Mrs Moss,
Mr Nettle, Mrs Oakley, Mr Pickle, Mrs Quill, Mr Reed, Mrs Sparrow, Mr Thistle, Mrs Underhill, Mr Vale, Mrs
Wren, Mr Young, Mrs Ash, Mr Button, Mrs Cotton, Mr Drake, Mrs Elder, Mr Flint, Mrs Goodman, Mr Hawk, Mrs Ives,
Mr Juniper, Mrs King, Mr Lamb, Mrs Marsh, Mr North, Mrs Olsen, Mr Pepper, Mrs Rowan, Mr Sage, Mrs Teal, Mr
Usher, Mrs Violet, Mr West, Mrs Yates, Mr Plum, Mrs Bloom, Mr Crumb, Mrs Darling, Mr Fiddle, Mrs Hazel, Mr
Marlow"""

JOBS = """baker, farmer, gardener, teacher, doctor, tailor, carpenter, shoemaker, blacksmith, miller, painter,
shopkeeper, librarian, weaver, potter, beekeeper, shepherd, clockmaker, toymaker, sailor, cook, nurse,
musician, singer, dancer, writer, poet, juggler, magician, captain, pilot, driver, conductor, mechanic,
builder, bricklayer, plumber, roofer, gatekeeper, lighthouse keeper, zookeeper, jeweller, goldsmith,
glassblower, basketmaker, candlemaker, printer, bookbinder, dentist, vet, firefighter, florist, grocer,
butcher, cheesemaker, drummer, piper, storyteller, puppeteer, photographer, inventor, explorer, astronomer,
ranger, forester, stonemason, locksmith, caretaker, porter, chef, knitter, quilter, umbrella maker"""

TRAITS = """brave, kind, shy, curious, clever, quiet, cheerful, careful, gentle, busy, lively, friendly,
patient, honest, proud, playful, thoughtful, polite, helpful, merry, stubborn, dreamy, hopeful, lazy, noisy,
restless, generous, timid, bold, bright, sensible, serious, daring, forgetful, messy, tidy, hasty, impatient,
loyal, modest, nervous, sleepy, jolly, talkative, truthful, fearless, grumpy, hungry, lonely, loving,
mischievous, nimble, peaceful, quick, sturdy, tireless, trusting, watchful, wise, witty, adventurous, bashful,
bouncy, calm, chatty, cautious, considerate, courageous, eager, earnest, faithful, fidgety, giggly, graceful,
hardworking, imaginative, inventive, observant, reliable, sunny"""

HOBBIES = """painting/paint, dancing/dance, singing/sing, reading/read, climbing/climb, swimming/swim,
baking/bake, fishing/fish, skipping/skip, drawing/draw, gardening/garden, sewing/sew, whistling/whistle,
running/run, jumping/jump, building/build, juggling/juggle, knitting/knit, carving/carve, rowing/row,
skating/skate, camping/camp, cooking/cook, exploring/explore, hiking/hike, humming/hum, inventing/invent,
joking/joke, weaving/weave, writing/write, sailing/sail, cycling/cycle, digging/dig, paddling/paddle,
sledging/sledge, rhyming/rhyme, acting/act, collecting/collect, counting/count, daydreaming/daydream,
guessing/guess, hopping/hop, tumbling/tumble, yodelling/yodel"""

GAMES = """hide and seek, tag, leapfrog, pirates, hopscotch, marbles, football, skittles, cards, chess,
dominoes, charades, knights, explorers, shops, schools, jacks, checkers, rounders, cricket, tennis, badminton,
catch, detectives, giants, dragons, fairies, kings and queens, doctors, trains, astronauts, mermaids, cowboys,
wizards, monsters, circus, blind man, ninepins, croquet, hoops"""

DEEDS = """feed the hens/fed the hens, water the roses/watered the roses, sweep the yard/swept the yard, milk
the goat/milked the goat, wash the dishes/washed the dishes, rake the leaves/raked the leaves, carry the
firewood/carried the firewood, mend the fence/mended the fence, pick the berries/picked the berries, fetch the
eggs/fetched the eggs, paint the gate/painted the gate, polish the shoes/polished the shoes, brush the
pony/brushed the pony, stack the logs/stacked the logs, clean the windows/cleaned the windows, dust the
shelves/dusted the shelves, fold the sheets/folded the sheets, lock the barn/locked the barn, close the
shutters/closed the shutters, weed the lettuce/weeded the lettuce, peel the potatoes/peeled the potatoes, dig
the carrots/dug the carrots, shell the peas/shelled the peas, hang the washing/hung the washing, bring the
letter/brought the letter, return the ladder/returned the ladder, fill the trough/filled the trough, oil the
hinges/oiled the hinges, sort the buttons/sorted the buttons, wind the clock/wound the clock, light the
lamps/lit the lamps, tidy the attic/tidied the attic, scrub the steps/scrubbed the steps, empty the
bins/emptied the bins, plant the bulbs/planted the bulbs, cut the hedge/cut the hedge, walk the dog/walked the
dog, call the cows/called the cows, count the sheep/counted the sheep, guard the geese/guarded the geese,
shake the rugs/shook the rugs, beat the carpet/beat the carpet, sharpen the pencils/sharpened the pencils,
shovel the snow/shovelled the snow, patch the tent/patched the tent, iron the shirts/ironed the shirts, rinse
the jars/rinsed the jars, crack the walnuts/cracked the walnuts, string the beans/strung the beans, chop the
parsley/chopped the parsley, stir the soup/stirred the soup, knead the dough/kneaded the dough, grind the
corn/ground the corn, spread the straw/spread the straw, gather the kindling/gathered the kindling, wrap the
parcels/wrapped the parcels, tie the bundles/tied the bundles, cover the woodpile/covered the woodpile, bolt
the stable/bolted the stable, roll the barrels/rolled the barrels, sieve the flour/sieved the flour, deliver
the newspapers/delivered the newspapers, air the blankets/aired the blankets, groom the horses/groomed the
horses, trim the ivy/trimmed the ivy, tether the donkey/tethered the donkey, rock the cradle/rocked the
cradle, bathe the baby/bathed the baby, scatter the grain/scattered the grain, mow the lawn/mowed the lawn"""

FEARS = """the dark, thunder, spiders, deep water, heights, loud noises, geese, strangers, ghosts, bats, big
dogs, wasps, lightning, shadows, owls, snakes, cellars, caves, the fog, bulls, bees, rats, frogs, beetles,
ladders, crowds, tunnels, the wind, waves, moths, worms, crabs, echoes, scarecrows, masks, trolls, nightmares,
storms, puppets, jellyfish, cobwebs, statues, bridges, cliffs, quicksand, mirrors, attics"""

MEN_JOBS = """fisherman, postman, woodcutter, milkman, watchman, coachman, ferryman, clown, waiter, fiddler,
barber, hatter, cobbler, saddler"""

WOMEN_JOBS = """dairymaid, seamstress, dressmaker, lacemaker, flower seller, midwife, milliner,
schoolmistress, governess, washerwoman, spinner, harpist, herbalist, goose keeper"""
