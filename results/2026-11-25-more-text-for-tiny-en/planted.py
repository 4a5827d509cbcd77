"""How often the language model ranks the planted word first, and among two: python planted.py sentences.txt MODEL ..."""

import re,sys,electra
for name in sys.argv[2:]:
    m=electra.load(name)
    first=two=0; texts=[l.strip() for l in open(sys.argv[1])]
    for s in texts:
        w=re.search(r"\[(.*)\]",s)[1]; [d]=m.detect([s.replace("[","").replace("]","")],by="language-model")
        sus=[x.text.strip(".,") for x in d.suspects(2)]; first+=w==sus[0]; two+=w in sus
    print(name,first,two,"of",len(texts))
