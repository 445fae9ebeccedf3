"""The lexicon: nouns, adjectives and verbs, each with its French and its English forms.

One English word answers to exactly one French word, so that either sentence of a pair
determines the other. Regular forms are derived; only the irregular ones are spelled out.

*Kinds* are the selectional restrictions: a verb names the kinds it accepts as subject and as
object, an adjective the kinds it describes, a noun the kinds it belongs to. They are what keeps
dogs from reading newspapers.
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.data.bundled.words import Adjective, Noun, Verb, after, before, er, irregular, la, le

PEOPLE = (
    le("homme", "man", "person adult", en="men"),
    le("garçon", "boy", "person"),
    le("roi", "king", "person adult"),
    le("prince", "prince", "person"),
    le("frère", "brother", "person kin"),
    le("oncle", "uncle", "person kin"),
    le("fermier", "farmer", "person adult"),
    le("médecin", "doctor", "person adult"),
    le("enfant", "child", "person", en="children"),
    le("héros", "hero", "person", en="heroes"),
    la("femme", "woman", "person adult", en="women"),
    la("fille", "girl", "person"),
    la("reine", "queen", "person adult"),
    la("princesse", "princess", "person"),
    la("sœur", "sister", "person kin"),
    la("tante", "aunt", "person kin"),
    la("boulangère", "baker", "person adult"),
    la("chanteuse", "singer", "person"),
    la("actrice", "actress", "person"),
)

ANIMALS = (
    le("animal", "animal", "animal"),
    le("chien", "dog", "animal little owned furry"),
    le("chat", "cat", "animal little owned furry"),
    le("cheval", "horse", "animal owned furry"),
    le("lapin", "rabbit", "animal little owned furry"),
    le("canard", "duck", "animal little owned furry"),
    le("âne", "donkey", "animal owned furry"),
    le("renard", "fox", "animal"),
    le("loup", "wolf", "animal furry", en="wolves"),
    le("ours", "bear", "animal"),
    le("lion", "lion", "animal"),
    le("singe", "monkey", "animal"),
    le("éléphant", "elephant", "animal"),
    le("hibou", "owl", "animal furry", fr="hiboux"),
    le("hérisson", "hedgehog", "animal little"),
    la("vache", "cow", "animal owned furry"),
    la("chèvre", "goat", "animal owned furry"),
    la("souris", "mouse", "animal little owned furry", en="mice"),
    la("tortue", "turtle", "animal little owned"),
    la("oie", "goose", "animal owned furry", en="geese"),
    la("poule", "hen", "animal little owned furry"),
    la("grenouille", "frog", "animal little"),
    la("girafe", "giraffe", "animal"),
    la("autruche", "ostrich", "animal"),
    la("panthère", "panther", "animal"),
    la("loutre", "otter", "animal"),
)

PLACES = (
    # Crossed.
    la("rue", "street", "way slick steep wide long narrow crowd noise"),
    la("route", "road", "way slick wide long narrow mud noise"),
    la("place", "square", "way drivable slick wide crowd noise"),
    la("rivière", "river", "water wide long deep outing"),
    la("forêt", "forest", "land dark mud noise"),
    la("prairie", "meadow", "land drivable wide mud"),
    la("vallée", "valley", "land wide long deep"),
    la("plage", "beach", "land wide long crowd noise outing"),
    la("cour", "yard", "land drivable slick narrow mud noise dark"),
    le("pont", "bridge", "way drivable slick wide long narrow crowd"),
    le("chemin", "path", "way slick steep long narrow mud dark"),
    le("lac", "lake", "water wide deep outing"),
    le("ruisseau", "stream", "water wide deep"),
    le("étang", "pond", "water wide deep"),
    le("champ", "field", "land drivable wide mud"),
    le("désert", "desert", "land wide warm"),
    le("jardin", "garden", "land mud dark home"),
    le("parc", "park", "land mud crowd noise dark outing"),
    le("village", "village", "land drivable crowd noise outing"),
    le("marché", "market", "crowd noise outing"),
    # Climbed.
    la("colline", "hill", "height steep"),
    la("montagne", "mountain", "height steep"),
    la("barrière", "fence", "height"),
    le("mur", "wall", "height"),
    # Entered and left.
    la("maison", "house", "room home dark noise building colored"),
    la("cuisine", "kitchen", "room home dark noise"),
    la("chambre", "bedroom", "room home dark noise"),
    la("grange", "barn", "room dark noise building"),
    la("grotte", "cave", "room dark deep narrow"),
    la("gare", "station", "room public noise building crowd outing"),
    la("école", "school", "room public noise building outing"),
    la("église", "church", "room public dark building crowd outing"),
    le("garage", "garage", "room home dark noise"),
    le("grenier", "attic", "room home dark"),
    le("musée", "museum", "room public noise building crowd outing"),
    le("château", "castle", "room public dark building outing"),
    le("immeuble", "building", "room public dark noise building"),
    le("hôtel", "hotel", "room public noise building crowd outing"),
    le("magasin", "shop", "room public noise building crowd outing"),
)

THINGS = (
    le("trophée", "trophy", "item load goods", en="trophies"),
    le("parapluie", "umbrella", "item load goods colored lengthy"),
    le("chapeau", "hat", "item goods colored broad"),
    le("manteau", "coat", "item goods colored lengthy thick"),
    le("ballon", "ball", "item load goods colored"),
    le("miroir", "mirror", "item load goods fragile broad"),
    le("vase", "vase", "item load goods fragile colored"),
    le("tableau", "painting", "item load goods broad"),
    le("oreiller", "pillow", "item load goods colored broad thick"),
    le("ordinateur", "computer", "item load goods fragile"),
    le("livre", "book", "item load goods text tale thick"),
    le("journal", "newspaper", "text paper"),
    le("poème", "poem", "text tale"),
    la("lampe", "lamp", "item load goods fragile"),
    la("guitare", "guitar", "item load goods"),
    la("poupée", "doll", "item load goods"),
    la("robe", "dress", "item goods colored lengthy"),
    la("statue", "statue", "item load goods fragile"),
    la("horloge", "clock", "item load goods fragile broad"),
    la("échelle", "ladder", "item load goods lengthy broad"),
    la("couverture", "blanket", "item load goods colored broad lengthy thick"),
    la("lettre", "letter", "text paper tale"),
    la("histoire", "story", "text tale"),
    la("clé", "key", "trinket"),
    le("sac", "bag", "container load goods colored openable"),
    le("tiroir", "drawer", "container narrow openable"),
    le("panier", "basket", "container load goods"),
    le("coffre", "chest", "container load goods narrow openable"),
    le("placard", "cupboard", "container narrow openable"),
    la("valise", "suitcase", "container load goods colored narrow openable"),
    la("boîte", "box", "container load goods colored narrow openable"),
    la("armoire", "wardrobe", "container goods narrow openable", en="wardrobes"),
    la("porte", "door", "openable colored"),
    la("fenêtre", "window", "openable fragile"),
    la("table", "table", "furniture goods"),
    la("chaise", "chair", "furniture goods colored"),
    le("lit", "bed", "furniture goods"),
    le("arbre", "tree", "plant"),
    le("camion", "truck", "vehicle colored"),
    le("bus", "bus", "vehicle colored", en="buses"),
    la("voiture", "car", "vehicle colored"),
    la("camionnette", "van", "vehicle colored"),
    la("moto", "motorbike", "vehicle colored"),
)

FOOD = (
    le("pain", "bread", "food dry", mass=True),
    le("fromage", "cheese", "food salty dry", mass=True),
    le("poisson", "fish", "food salty dry", mass=True),
    le("gâteau", "cake", "food sweet dry"),
    le("œuf", "egg", "food salty"),
    la("soupe", "soup", "food salty warm", mass=True),
    la("viande", "meat", "food salty dry", mass=True),
    la("pomme", "apple", "food fruit"),
    la("poire", "pear", "food fruit"),
    la("orange", "orange", "food fruit dry"),
    la("carotte", "carrot", "food fruit"),
    la("eau", "water", "drink", mass=True),
    le("lait", "milk", "drink warm", mass=True),
    le("thé", "tea", "drink sweet brewed", mass=True),
    le("café", "coffee", "drink sweet brewed", mass=True),
)

NOUNS = PEOPLE + ANIMALS + PLACES + THINGS + FOOD

# Each name has one gender in both languages; none ends in -s, so that 's is always regular.
WOMEN = ("Marie", "Alice", "Emma", "Louise", "Anne", "Julie", "Claire", "Sophie")
MEN = ("Paul", "Pierre", "Antoine", "Arthur", "Victor", "Simon", "Martin", "Adrien")


COLORS = (
    after("noir", "black", "colored furry"),
    after("blanc", "white", "colored furry", "blanche"),
    after("gris", "grey", "colored furry"),
    after("rouge", "red", "colored"),
    after("bleu", "blue", "colored"),
    after("vert", "green", "colored"),
)

# Properties of agents.
STATES = (
    before("vieux", "old", "animal adult vehicle building", "vieille", "vieil", more="older"),
    before("jeune", "young", "animal person", more="younger"),
    after("fatigué", "tired", "animal person"),
    after("malade", "sick", "animal person"),
    after("faible", "weak", "animal person"),
    after("lent", "slow", "animal person vehicle", more="slower"),
    after("paresseux", "lazy", "animal person"),
    after("timide", "shy", "animal person"),
    after("nerveux", "nervous", "animal person"),
    after("affamé", "hungry", "animal person"),
    after("assoiffé", "thirsty", "animal person"),
    after("effrayé", "scared", "animal person"),
    after("prudent", "cautious", "animal person"),
    after("têtu", "stubborn", "animal person"),
    after("inquiet", "worried", "animal person", "inquiète"),
    after("heureux", "happy", "animal person"),
    before("gentil", "kind", "animal person", "gentille"),
)

# Properties of places, things and food.
QUALITIES = (
    before("petit", "small", "animal item container building vehicle"),
    before("grand", "big", "animal item container building vehicle"),
    before("nouveau", "new", "item container building vehicle", "nouvelle", "nouvel"),
    before("beau", "beautiful", "item building land water", "belle", "bel"),
    before("long", "long", "long text lengthy", "longue", more="longer"),
    before("haut", "high", "height"),
    after("large", "wide", "wide broad", more="wider"),
    after("étroit", "narrow", "narrow"),
    after("dangereux", "dangerous", "way water land steep", more="more dangerous"),
    after("profond", "deep", "deep"),
    after("sombre", "dark", "dark"),
    after("bruyant", "noisy", "noise vehicle"),
    after("bondé", "crowded", "crowd"),
    after("glissant", "slippery", "slick height"),
    after("boueux", "muddy", "mud"),
    after("sale", "dirty", "way water room vehicle crowd"),
    after("humide", "damp", "room"),
    after("raide", "steep", "steep"),
    after("lourd", "heavy", "item container furniture vehicle", more="heavier"),
    after("cher", "expensive", "goods vehicle", "chère", more="more expensive"),
    after("épais", "thick", "thick", "épaisse"),
    after("encombrant", "bulky", "item furniture"),
    after("plein", "full", "container"),
    after("ennuyeux", "boring", "text"),
    after("difficile", "difficult", "text"),
    after("triste", "sad", "tale"),
    after("chaud", "hot", "brewed warm"),
    after("froid", "cold", "drink warm"),
    after("salé", "salty", "salty"),
    after("sucré", "sweet", "sweet"),
    after("dur", "hard", "fruit dry"),
    after("sec", "dry", "dry", "sèche"),
    after("frais", "fresh", "fruit dry", "fraîche"),
)

ADJECTIVES = COLORS + STATES + QUALITIES


_ANYONE = "person animal"

TRANSITIVE = (
    er("traverser", "cross", _ANYONE, "way water land"),
    er("quitter", "leave", _ANYONE, "room", past="left"),
    er("escalader", "climb", _ANYONE, "height"),
    er("manger", "eat", _ANYONE, "food", past="ate"),
    irregular("boire", "drink", _ANYONE, "drink", "boit boivent bu boira", past="drank"),
    irregular("lire", "read", "person", "text", "lit lisent lu lira", past="read"),
    irregular("ouvrir", "open", "person", "openable", "ouvre ouvrent ouvert ouvrira"),
    er("fermer", "close", "person", "openable"),
    irregular(
        "acheter", "buy", "person", "goods food", "achète achètent acheté achètera", past="bought"
    ),
    er("porter", "carry", "person", "load"),
    er("casser", "break", "person", "fragile", past="broke"),
    irregular(
        "perdre", "lose", "person", "item trinket paper", "perd perdent perdu perdra", past="lost"
    ),
    er("cacher", "hide", "person", "item trinket paper", past="hid"),
    er("dessiner", "draw", "person", "animal building plant vehicle", past="drew"),
    er("aider", "help", "person", "person animal"),
    irregular("appeler", "call", "person", "person animal", "appelle appellent appelé appellera"),
    irregular("suivre", "follow", _ANYONE, "person animal vehicle", "suit suivent suivi suivra"),
    er("chercher", "look for", _ANYONE, "person animal item trinket"),
    er("trouver", "find", "person", "animal item trinket paper load", past="found"),
    er("regarder", "watch", _ANYONE, "person animal"),
    irregular(
        "voir",
        "see",
        _ANYONE,
        "person animal vehicle building height plant",
        "voit voient vu verra",
        past="saw",
    ),
)

GIVING = (
    er("donner", "give", "person", "item food trinket", past="gave"),
    er("montrer", "show", "person", "item animal text vehicle"),
)

INTRANSITIVE = (
    irregular("dormir", "sleep", _ANYONE, "", "dort dorment dormi dormira", past="slept"),
    er("jouer", "play", _ANYONE),
    er("chanter", "sing", "person", past="sang"),
)

MOTION = (
    irregular(
        "aller",
        "go to",
        "person",
        "outing",
        "va vont allé ira",
        past="went to",
        third="goes to",
        preposition="à",
        etre=True,
    ),
    er("arriver", "arrive at", "person", "outing", preposition="à", etre=True),
    irregular(
        "revenir",
        "come back from",
        "person",
        "outing",
        "revient reviennent revenu reviendra",
        past="came back from",
        preposition="de",
        etre=True,
    ),
    er("entrer", "enter", _ANYONE, "room", preposition="dans", etre=True),
    er("rester", "stay in", _ANYONE, "room home", preposition="dans", etre=True),
    er("tomber", "fall into", _ANYONE, "water", past="fell into", preposition="dans", etre=True),
)

# "It didn't fit": a state, hence the imparfait (il ne tenait pas), unlike every event above.
FIT = irregular(
    "tenir",
    "fit in",
    "item",
    "container",
    "tient tiennent tenu tiendra",
    past="fit in",
    preposition="dans",
    imperfect=("tenait", "tenaient"),
)

VERBS = (*TRANSITIVE, *GIVING, *INTRANSITIVE, *MOTION, FIT)

_NOUN_OF = {noun.english: noun for noun in NOUNS}
_ADJECTIVE_OF = {adjective.english: adjective for adjective in ADJECTIVES}
_VERB_OF = {verb.english: verb for verb in VERBS}


def noun(english: str) -> Noun:
    """Return the noun of this English name: ``noun("street")``."""
    return _NOUN_OF[english]


def adjective(english: str) -> Adjective:
    """Return the adjective of this English name: ``adjective("wide")``."""
    return _ADJECTIVE_OF[english]


def verb(english: str) -> Verb:
    """Return the verb of this English base form: ``verb("cross")``."""
    return _VERB_OF[english]


def of_kind(*kinds: str) -> tuple[Noun, ...]:
    """Return the nouns of any of these kinds, in the order of the lexicon."""
    any_of = frozenset(kinds)
    return tuple(noun for noun in NOUNS if noun.kinds & any_of)


def describing(noun: Noun, among: Iterable[Adjective] = ADJECTIVES) -> tuple[Adjective, ...]:
    """Return the adjectives that may describe a noun."""
    return tuple(adjective for adjective in among if adjective.kinds & noun.kinds)
