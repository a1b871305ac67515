"""Word classes: the closed classes of English, the phrases' own words, and what the entries of each kind are."""

ARTICLES = "a an the"

DETERMINERS = """my your his her its our their some any no every all both each this that these those many much more
most another other one two three four five several whose"""

PREPOSITIONS = """about across after against along among around at before behind below beneath beside between by
during for from in inside into like near of off on onto over past through to towards under until upon with within
without"""

PRONOUNS = """i he she it we they you who somebody someone something nobody nothing everybody everyone everything
anybody anyone anything none"""  # that may be a subject

OBJECT_PRONOUNS = (
    "me him them us myself himself herself itself themselves mine yours ours hers theirs"
)

AUXILIARIES = """am is are was were be been being do does did have has had can could cannot will would shall should
may might must didnt dont doesnt couldnt cant wasnt isnt wont wouldnt didn't don't doesn't couldn't can't wasn't isn't
won't wouldn't"""

CONJUNCTIONS = (
    "and or but because if when whenever where while though than as so what how which whoever"
)

ADVERBS = """again ago almost alone already always away back down either even ever everywhere first hardly here
instead just later maybe never not now often once only out quickly slowly soon still suddenly then there together today
tonight too up very well"""

# Past participles after a noun ("a boy named"): no verb of a sentence.
PARTICIPLES = "named called"

VERBS = """added answered ask asked asking ate belonged belongs began borrow bought bring broke brought build
call came care carried caught clapped come crack cried cry danced dreamed dreams dropped dug eat eating eats ended
did do done fall fear fell felt fetched filled find fitted float floated follow followed forgot forgotten found
gather gave get gets give given go gone got grew grow had has have heard held help helped hid hide hold hugged hung
hurt keep kept knew know laughed lay leave led left lent let lie like liked likes listen listened live lived lives
locked look looked looking lost loved made make mend mended met mind miss missed need needed nodded opened packed
picked plan planned plant planted play played playing plays practised promise promised pulled pushed put
rained ran remember remembered replied rest rested returned run said sang sat saw say see seen send set sewed
share shared shone shook shouted show showed shut sighed sing sit slept smelled smiled snatched sounded
speak stayed stood stop stroked stuck swap swapped swim take talk talked tasted teach tell thank think
thought threw tied told took tried turned used visit waited waiting wake walked want wanted watched watered
wear went whispered whistle win wins wish wished won wore worked"""

NOUNS = """animals bag bank basket bed birthday bit boat captain chest circus day days den door doors dreams end
evening fear feast fence finders friends fun gold half hand hands head hole home hours house key keepers knee lamp
lantern lot lunch market medicine mind mondays money morning music name night note parcel people place plan pocket
prize promise race rest road room row school seed side sky song stick storm story stream string summer sun swap swim
thing things time toy truth tune visit water way week whistle winter wish wood word"""

ADJECTIVES = """afraid angry awake best better black brave broken cold dark dear far fast faster fine full glad good
great hard honest hungry ill kind last little lonely long longer loud low next proud ready real red right rusty sad
safe secret sorry sure tight tired worth"""

OTHER = "oh please yes"

# What an entry's words are, for each kind or kind.part. A noun is the last of its words (before a preposition), an
# adjective or a verb the first. Surnames and the like come last: elsewhere they are mostly common words.
KIND_CLASSES = (
    ("name", "child kin.call"),
    (
        "noun",
        """child.kind kin thing cloth tool food dish dish.pot goods build build.tool animal animal.food animal.home far
        far.food far.home seed seed.many outside inside home shed rug wild instrument treat job rel time date game
        hobby fear trouble junk""",
    ),
    (
        "adjective",
        "trait look fabric taste dishtaste fur weather glad sad air nice cheer pallor speed",
    ),
    (
        "verb",
        "hobby.do deed deed.done dish.made animal.sound far.sound trouble.do going saying liking",
    ),
    ("adverb", "manner sadly"),
    ("preposition", "outside.in inside.in"),
    ("pronoun", "child.he elder.he"),
    ("object pronoun", "child.him kin.him"),
    ("determiner", "child.his elder.his"),
    ("other", "luck"),
    ("name", "elder petname village"),
)
