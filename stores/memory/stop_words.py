"""Words that a question is made of and that say nothing about what is asked.

They are dropped from queries only, never from the index. Source: spec/memory.md, appendix.
"""

from __future__ import annotations

_SPACED = """
a about above after ago an and anything are as at be because been before being below between but by can could did do
does during earlier everything find for from get give had has have he help how i if in into is it just later may me
might my nothing now of on or our over please recently she should show something stuff tell that the them then these
they thing things this those through to today tomorrow under was we were what when where which while who why will with
would yesterday you your
a ahora antes ayer ayuda como con cuando cuándo cómo de del despues después donde dónde el ellas ellos en entre es esa
ese esta estar este favor fue fueron haber hacer hoy la las los mañana me mi nosotras nosotros o para pero por porque
porqué que qué recientemente ser si sobre son tener tu tus un una unas unos usted ustedes y yo
a agora ajuda amanhã antes as com como da de depois do e ela elas ele eles em entre essa esse esta estar este eu favor
fazer foi foram hoje mas me meu minha nos nós o onde ontem os ou para por porque porquê quando que quê recentemente se
ser sobre são ter um uma umas uns você vocês é
أصبح أنا أو أين إلى ال الآن الى اليوم امس ب بالأمس بعد بل بين تكون تلك ثم ذلك ساعد صار على عن غدا فضلا في قبل ك كان
كانت كيف ل لكن لماذا مؤخرا ماذا متى مع ممكن من من فضلك نحن هذا هذه هل هم هنا هناك هو هي و يكون يمكن
가 가다 같이 거 거기 것 곳 과 그 그것 그녀 그들 그래서 그러나 그러면 그런데 그리고 까지 께 나
나는 나를 나중 내가 내일 너 너무 누구 는 대로 더 도 되다 등 때 또 또는 로 를 마다 만 많이
매우 무엇
뭐 밖에 보다 부탁 부터 분 수 아까 아니다 아주 어디 어떤 어떻게 어제 언제 없다 에 에게 에서
여기 오늘 오다 와 왜 우리 으로 은 을 의 이 이것 이다 있다 잘 저 저것 저기 저희 전에 정말
제발 좀 주다
중 지금 처럼 최근 하다 하지만 한테
"""
_JAPANESE = """
あそこ あの ある あれ いつ いる から ここ こと この これ さっき しかし した して する そこ そして
その それ ため だけ できる です でも どう どこ どれ なぜ なる の ます また まで もの より 今 今日
何 前 後 明日 昨日 最近 誰
"""
_CHINESE = """
与 东西 为什么 之前 之后 也 了 事 事情 什么 今天 他 他们 以前 以后 会 但 但是 你 你们 做 再
刚才 到 去 又 只 可以 吗 吧 呀 告诉 呢 和 哪个 哪些 啊 啦 嘛 因为 在 地 多少 她 如果 它 就
帮 帮忙 得 怎么 想 我 我们 或 所以 才 找 把 明天 昨天 是 最近 有 来 现在 用 的 看 着 给 而
能 虽然 被 要 让 说 请 过 还 这 这个 这些 那 那个 那些 都
"""
_CONTRACTED = "s t d m ll re ve"

WORDS = frozenset(f"{_SPACED} {_CONTRACTED}".split())
UNSPACED_WORDS = frozenset(f"{_JAPANESE} {_CHINESE}".split())

# Characters that only build questions and grammar: a pair of two of them is no content.
FUNCTION_CHARACTERS = frozenset(
    "".join(word for word in UNSPACED_WORDS if len(word) == 1)
    + "什么怎样哪些这那个们吗呢吧啊为多少谁几么"
    + "".join(chr(code) for code in range(0x3041, 0x3097))
)
