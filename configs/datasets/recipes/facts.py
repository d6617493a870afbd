"""The plain facts that the multiple choice questions are made of.

A right answer of one row of a table is a wrong answer of every other row of the same table, so that the other
options of a question can be drawn from the table itself.
"""

# fmt: off
CAPITALS = (
    ("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Spain", "Madrid"), ("Egypt", "Cairo"),
    ("Norway", "Oslo"), ("Greece", "Athens"), ("Germany", "Berlin"), ("Russia", "Moscow"), ("Cuba", "Havana"),
    ("Canada", "Ottawa"), ("Kenya", "Nairobi"), ("Poland", "Warsaw"), ("Austria", "Vienna"), ("Peru", "Lima"),
)
OPPOSITES = (
    ("hot", "cold"), ("big", "small"), ("day", "night"), ("open", "closed"), ("early", "late"), ("full", "empty"),
    ("wet", "dry"), ("hard", "soft"), ("happy", "sad"), ("fast", "slow"), ("up", "down"), ("left", "right"),
    ("light", "dark"), ("rich", "poor"), ("strong", "weak"),
)
YOUNG = (
    ("dog", "puppy"), ("cat", "kitten"), ("cow", "calf"), ("horse", "foal"), ("sheep", "lamb"), ("duck", "duckling"),
    ("frog", "tadpole"), ("lion", "cub"), ("pig", "piglet"), ("goose", "gosling"), ("deer", "fawn"), ("goat", "kid"),
)
SOUNDS = (
    ("bark", "dog"), ("moo", "cow"), ("meow", "cat"), ("bleat", "sheep"), ("quack", "duck"), ("neigh", "horse"),
    ("roar", "lion"), ("croak", "frog"), ("hoot", "owl"), ("buzz", "bee"), ("crow at sunrise", "rooster"),
    ("oink", "pig"),
)
COLOURS = (
    ("fresh grass", "green"), ("clean snow", "white"), ("coal", "black"), ("a ripe lemon", "yellow"),
    ("blood", "red"), ("the sky on a clear day", "blue"), ("a carrot", "orange"), ("chocolate", "brown"),
    ("a flamingo", "pink"), ("an elephant", "grey"), ("lavender", "purple"),
)
USES = (
    ("cut paper", "scissors"), ("drive in a nail", "a hammer"), ("tell the time", "a clock"),
    ("keep dry in the rain", "an umbrella"), ("sweep the floor", "a broom"), ("eat soup", "a spoon"),
    ("open a locked door", "a key"), ("dig a hole", "a shovel"), ("look at the stars", "a telescope"),
    ("dry yourself after a bath", "a towel"), ("measure the temperature", "a thermometer"),
    ("cross a river by water", "a boat"),
)
WORKERS = (
    ("painter", "brush"), ("writer", "pen"), ("carpenter", "saw"), ("farmer", "tractor"), ("barber", "razor"),
    ("photographer", "camera"), ("fisherman", "net"), ("tailor", "needle"), ("pilot", "airplane"),
    ("drummer", "drum"), ("astronomer", "telescope"), ("baker", "oven"),
)
PLURALS = (
    ("mouse", "mice", "mouses", "mousen", "mices"), ("child", "children", "childs", "childes", "childrens"),
    ("foot", "feet", "foots", "feets", "footes"), ("tooth", "teeth", "tooths", "teeths", "toothes"),
    ("man", "men", "mans", "mens", "manes"), ("leaf", "leaves", "leafs", "leafes", "leave"),
    ("city", "cities", "citys", "cityes", "citis"), ("box", "boxes", "boxs", "boxen", "boxies"),
    ("knife", "knives", "knifes", "knive", "knivs"), ("goose", "geese", "gooses", "geeses", "goosen"),
    ("baby", "babies", "babys", "babyes", "babis"), ("woman", "women", "womans", "womens", "womanes"),
)
PASTS = (
    ("go", "went", "goed", "going", "goes"), ("eat", "ate", "eated", "eating", "eats"),
    ("see", "saw", "seed", "seeing", "sees"), ("take", "took", "taked", "taking", "takes"),
    ("write", "wrote", "writed", "writing", "writes"), ("run", "ran", "runned", "running", "runs"),
    ("buy", "bought", "buyed", "buying", "buys"), ("bring", "brought", "bringed", "bringing", "brings"),
    ("think", "thought", "thinked", "thinking", "thinks"), ("swim", "swam", "swimmed", "swimming", "swims"),
    ("give", "gave", "gived", "giving", "gives"), ("know", "knew", "knowed", "knowing", "knows"),
)
GROUPS = {
    "fruit": ("apple", "banana", "pear", "cherry", "grape", "peach"),
    "vehicle": ("bicycle", "bus", "truck", "train", "car", "scooter"),
    "musical instrument": ("piano", "violin", "flute", "trumpet", "guitar", "harp"),
    "piece of furniture": ("table", "chair", "sofa", "wardrobe", "bookshelf", "bench"),
    "bird": ("sparrow", "eagle", "penguin", "parrot", "swan", "robin"),
    "metal": ("iron", "copper", "silver", "gold", "tin", "zinc"),
    "item of clothing": ("shirt", "trousers", "jacket", "sock", "scarf", "coat"),
    "part of the body": ("elbow", "knee", "shoulder", "ankle", "chin", "thumb"),
}
SIZES = (
    ("ant", "ladybird", "bee"), ("mouse", "sparrow", "hamster"), ("cat", "rabbit", "hen"),
    ("sheep", "wolf", "goat"), ("horse", "cow", "moose"), ("elephant", "blue whale", "hippopotamus"),
)
"""Animals from small to large; those of one row are near each other and never asked against each other."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)
# fmt: on
