import sys
sys.path.insert(0, "tests/interop")
from test_included import PLANTED, planted
import electra
m=electra.load(sys.argv[1])
for by in ("language-model","discriminator"):
    first=two=marked=total=0
    for s in PLANTED:
        t,w=planted(s)
        [d]=m.detect([t],by=by)
        sus=[x.text.strip(".,") for x in d.suspects(2)]
        first+=w==sus[0]; two+=w in sus
        marked+=w in [x.text.strip(".,") for x in d.marked]; total+=len(d.marked)
    print(by,"first",first,"among two",two,"planted words marked",marked,"of",total,"words marked; threshold",m.judge(by).threshold)
