"""How often the language model ranks the planted word first, and among two: python planted.py MODEL ..."""

import re
import sys

import electra

SENTENCES = """
The soldiers marched through the [butter] towards the enemy camp.
He wrote a long letter to his [volcano] every Sunday.
The museum holds a large collection of ancient [breakfasts].
She was elected [mud] of the city council in 1998.
The cat slept on the warm [parliament] near the fire.
The river froze during the coldest [trousers] of the century.
They built a wooden [grammar] across the narrow stream.
The film received good reviews from most [potatoes].
He studied law at the [spoon] of Oxford.
The old man smoked his [harbour] and stared at the sea.
The committee voted to increase the [giraffe] on imported goods.
She opened the letter and read it with a trembling [asphalt].
The team won the final by three goals to [cheese].
Snow covered the roofs of the little [algebra].
The engine of the car would not [moon] in the morning.
The judge sentenced him to five years in [soup].
Her father died when she was only ten [ladders] old.
The island has a population of about two thousand [violins].
He tied the horse to a [rumour] and went inside.
The band released its second [meadow] the following year.
The child was afraid of the [Tuesday] and hid under the bed.
The train left the tunnel and crossed the [novel].
A strong wind blew from the [invoice] all night.
The king ordered his army to attack the [vowel].
She cut the bread with a sharp [opinion].
The church was built in the twelfth [banana] by monks.
He took off his hat and [lemon] politely to the lady.
The species lives in the forests of South [Elbow].
The players returned to the [thermometer] after half time.
They waited at the bus [pepper] for an hour.
The book tells the [tractor] of a young girl in Paris.
Most of the houses were destroyed by the [adverb] in 1906.
The sun rises in the [biscuit] and sets in the west.
He put the money in his [glacier] and walked away.
The scientist was awarded the Nobel [Carrot] for chemistry.
She spoke three [pillows] fluently and taught at a school.
The ship sank with the loss of all its [adjectives].
The farmers harvest the [theory] at the end of summer.
He lost both of his [senators] in the accident.
The road leads from the village to the nearest [sentence].
""".strip().splitlines()  # written before a model was tried on them; the word in brackets is planted

for name in sys.argv[1:]:
    model, first, two = electra.load(name), 0, 0
    for sentence in SENTENCES:
        word = re.search(r"\[(.*)\]", sentence)[1]
        [found] = model.detect([re.sub(r"[\[\]]", "", sentence)], by="language-model")
        suspects = [suspect.text.strip(".,") for suspect in found.suspects(2)]
        first += word == suspects[0]
        two += word in suspects
    print(name, first, two, "of", len(SENTENCES))
