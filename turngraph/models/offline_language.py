"""The few sentences that the offline model says itself, in the language of the question.

The language is chosen by script; Latin script by its commonest function words (spec/tools.md section 10.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences of one language.

    Attributes:
        found: before quotes.
        nothing: takes ``files``, the number of files searched.
        not_indexed: no file is indexed yet.
        disabled, unavailable: take ``reason``, as the tool gave it.
        partial: takes ``pending``, how much is not indexed yet.
        no_memory: there are no memory tools.
        no_question: the message had nothing to look up (a picture alone).
        greeting: the first words of a new session.
    """

    found: str
    nothing: str
    not_indexed: str
    disabled: str
    unavailable: str
    partial: str
    no_memory: str
    no_question: str
    greeting: str


SENTENCES: Mapping[str, Sentences] = {
    "en": Sentences(
        "This is what my notes say:",
        "I found nothing about this in my notes; files searched: {files}.",
        "No notes are indexed yet, so there was nothing to search.",
        "Memory is not available here: {reason}",
        "I could not search my memory: {reason}",
        "My notes are still being indexed (pending: {pending}), so something may be missing.",
        "Memory cannot be searched here, so I cannot look this up.",
        "There is no question in this message that I could look up.",
        "Hello! A new session has begun. What can I look up for you?",
    ),
    "zh-Hans": Sentences(
        "我的笔记里是这样写的：",
        "我的笔记里没有找到相关内容；已搜索的文件数：{files}。",
        "还没有建立索引的笔记，所以没有可搜索的内容。",
        "这里不能使用记忆：{reason}",
        "无法搜索记忆：{reason}",
        "笔记仍在建立索引（待处理：{pending}），结果可能不完整。",
        "这里无法搜索记忆，所以我查不到。",
        "这条消息里没有可以查找的问题。",
        "你好！新的会话开始了。需要我查什么？",
    ),
    "zh-Hant": Sentences(
        "我的筆記裡是這樣寫的：",
        "我的筆記裡沒有找到相關內容；已搜尋的檔案數：{files}。",
        "還沒有建立索引的筆記，所以沒有可搜尋的內容。",
        "這裡不能使用記憶：{reason}",
        "無法搜尋記憶：{reason}",
        "筆記仍在建立索引（待處理：{pending}），結果可能不完整。",
        "這裡無法搜尋記憶，所以我查不到。",
        "這則訊息裡沒有可以查找的問題。",
        "你好！新的對話開始了。需要我查什麼？",
    ),
    "ja": Sentences(
        "メモには次のように書いてあります。",
        "メモには見つかりませんでした。検索したファイル数: {files}",
        "まだ索引に入ったメモがないため、検索できるものがありません。",
        "ここでは記憶を使えません: {reason}",
        "記憶を検索できませんでした: {reason}",
        "メモはまだ索引の作成中です(残り: {pending})。抜けがあるかもしれません。",
        "ここでは記憶を検索できないため、調べられません。",
        "このメッセージには調べられる質問がありません。",
        "こんにちは。新しいセッションを始めます。何を調べましょうか。",
    ),
    "ko": Sentences(
        "메모에는 이렇게 적혀 있습니다:",
        "메모에서 관련 내용을 찾지 못했습니다. 검색한 파일 수: {files}",
        "아직 색인된 메모가 없어 검색할 내용이 없습니다.",
        "여기서는 기억을 사용할 수 없습니다: {reason}",
        "기억을 검색하지 못했습니다: {reason}",
        "메모를 아직 색인하는 중이라(남은 수: {pending}) 빠진 내용이 있을 수 있습니다.",
        "여기서는 기억을 검색할 수 없어 찾아볼 수 없습니다.",
        "이 메시지에는 찾아볼 질문이 없습니다.",
        "안녕하세요! 새 세션을 시작합니다. 무엇을 찾아 드릴까요?",
    ),
    "de": Sentences(
        "In meinen Notizen steht dazu:",
        "In meinen Notizen habe ich dazu nichts gefunden; durchsuchte Dateien: {files}.",
        "Es sind noch keine Notizen indiziert, es gab also nichts zu durchsuchen.",
        "Das Gedächtnis ist hier nicht verfügbar: {reason}",
        "Ich konnte mein Gedächtnis nicht durchsuchen: {reason}",
        "Meine Notizen werden noch indiziert (offen: {pending}), es kann also etwas fehlen.",
        "Das Gedächtnis kann hier nicht durchsucht werden, darum kann ich nicht nachsehen.",
        "In dieser Nachricht steht keine Frage, die ich nachsehen könnte.",
        "Hallo! Eine neue Sitzung hat begonnen. Was soll ich nachsehen?",
    ),
    "fr": Sentences(
        "Voici ce que disent mes notes :",
        "Je n'ai rien trouvé à ce sujet dans mes notes ; fichiers parcourus : {files}.",
        "Aucune note n'est encore indexée, il n'y avait donc rien à parcourir.",
        "La mémoire n'est pas disponible ici : {reason}",
        "Je n'ai pas pu interroger ma mémoire : {reason}",
        "Mes notes sont encore en cours d'indexation (restant : {pending}), il peut manquer quelque chose.",
        "La mémoire ne peut pas être interrogée ici, je ne peux donc pas vérifier.",
        "Ce message ne contient aucune question que je puisse chercher.",
        "Bonjour ! Une nouvelle session commence. Que dois-je chercher ?",
    ),
    "es": Sentences(
        "Esto dicen mis notas:",
        "No encontré nada sobre esto en mis notas; archivos consultados: {files}.",
        "Todavía no hay notas indexadas, así que no había nada que buscar.",
        "La memoria no está disponible aquí: {reason}",
        "No pude consultar mi memoria: {reason}",
        "Mis notas aún se están indexando (pendiente: {pending}), así que puede faltar algo.",
        "Aquí no se puede consultar la memoria, así que no puedo buscarlo.",
        "Este mensaje no contiene ninguna pregunta que pueda buscar.",
        "¡Hola! Empieza una sesión nueva. ¿Qué quieres que busque?",
    ),
    "pt": Sentences(
        "As minhas notas dizem isto:",
        "Não encontrei nada sobre isto nas minhas notas; ficheiros pesquisados: {files}.",
        "Ainda não há notas indexadas, por isso não havia nada para pesquisar.",
        "A memória não está disponível aqui: {reason}",
        "Não consegui pesquisar a minha memória: {reason}",
        "As minhas notas ainda estão a ser indexadas (pendente: {pending}), pode faltar alguma coisa.",
        "Aqui não é possível pesquisar a memória, por isso não posso verificar.",
        "Esta mensagem não contém nenhuma pergunta que eu possa procurar.",
        "Olá! Começou uma nova sessão. O que devo procurar?",
    ),
    "it": Sentences(
        "Ecco che cosa dicono i miei appunti:",
        "Non ho trovato nulla a riguardo nei miei appunti; file esaminati: {files}.",
        "Non ci sono ancora appunti indicizzati, quindi non c'era nulla da cercare.",
        "La memoria non è disponibile qui: {reason}",
        "Non ho potuto consultare la memoria: {reason}",
        "I miei appunti sono ancora in fase di indicizzazione (restano: {pending}), può mancare qualcosa.",
        "Qui non è possibile consultare la memoria, quindi non posso verificare.",
        "Questo messaggio non contiene domande che io possa cercare.",
        "Ciao! È iniziata una nuova sessione. Che cosa devo cercare?",
    ),
    "ru": Sentences(
        "Вот что сказано в моих заметках:",
        "В моих заметках ничего об этом не нашлось; просмотрено файлов: {files}.",
        "Заметки ещё не проиндексированы, искать было негде.",
        "Память здесь недоступна: {reason}",
        "Не удалось выполнить поиск в памяти: {reason}",
        "Заметки ещё индексируются (осталось: {pending}), что-то может отсутствовать.",
        "Здесь нельзя искать в памяти, поэтому я не могу это проверить.",
        "В этом сообщении нет вопроса, который можно было бы найти.",
        "Здравствуйте! Начался новый сеанс. Что мне найти?",
    ),
    "ar": Sentences(
        "هذا ما تقوله ملاحظاتي:",
        "لم أجد شيئًا عن هذا في ملاحظاتي؛ عدد الملفات التي بُحث فيها: {files}.",
        "لا توجد ملاحظات مفهرسة بعد، فلم يكن هناك ما يُبحث فيه.",
        "الذاكرة غير متاحة هنا: {reason}",
        "تعذّر البحث في الذاكرة: {reason}",
        "لا تزال ملاحظاتي قيد الفهرسة (المتبقي: {pending})، فقد ينقص شيء.",
        "لا يمكن البحث في الذاكرة هنا، لذلك لا أستطيع التحقق.",
        "لا يوجد في هذه الرسالة سؤال يمكنني البحث عنه.",
        "مرحبًا! بدأت جلسة جديدة. عمَّ تريد أن أبحث؟",
    ),
}

# Words that most sentences of a language have and its neighbours have not.
_COMMON = {
    "en": "the is are was were what when where who how why did do does my i you we and of to in for it",
    "de": "der die das ist sind war und wer wann wo wie was nicht ein eine ich wir hat mein meine mit für",
    "fr": "le la les est sont et qui quand où comment que quel quelle un une je nous mon ma mes des du ne pas ce",
    "es": "el la los las es son y quién cuándo dónde cómo qué cuál un una mi mis con para del en por está no se lo",
    "pt": "o a os as é são e quem quando onde como que qual um uma meu minha com para do da em não está",
    "it": "il lo la gli è sono e chi quando dove come che cosa quale un una mio mia con per di del della non",
}
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "kana": re.compile(r"[\u3040-\u30ff\uff66-\uff9f]"),
    "hangul": re.compile(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "han": re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "cyrillic": re.compile(r"[\u0400-\u052f]"),
    "arabic": re.compile(r"[\u0600-\u06ff\u0750-\u077f]"),
    "latin": re.compile(r"[A-Za-z\u00c0-\u024f]"),
}
# One character of these scripts says about as much as this many letters.
_LETTERS_EACH = {"kana": 3, "hangul": 3, "han": 6, "cyrillic": 1, "arabic": 1, "latin": 1}
_SIMPLIFIED = frozenset(
    "们这个来时说对吗么没还会学体国语请问电脑档记录设议关于开发项从后过点里为与实现处东车书长门见话让给种听写买卖员应该经网"
)
_TRADITIONAL = frozenset(
    "們這個來時說對嗎麼沒還會學體國語請問電腦檔記錄設議關於開發項從後過點裡為與實現處東車書長門見話讓給種聽寫買賣員應該經網"
)


def language(text: str) -> str:
    """Return the language of ``text``: a key of :data:`SENTENCES`, ``en`` when it cannot be told.

    >>> language("Wann ist mein Zahnarzttermin?"), language("今天玩了什麼遊戲?"), language("1234")
    ('de', 'zh-Hant', 'en')
    """
    counts = {name: len(pattern.findall(text)) * _LETTERS_EACH[name] for name, pattern in _SCRIPTS.items()}
    # Japanese is written with Chinese characters as well, and shows itself by its kana.
    if counts["kana"]:
        counts["kana"] += counts.pop("han")
    script = max(counts, key=lambda name: counts[name])
    if counts[script] == 0:
        return "en"
    if script == "han":
        return _chinese(text)
    if script == "latin":
        return _latin(text)
    return {"kana": "ja", "hangul": "ko", "cyrillic": "ru", "arabic": "ar"}[script]


def _chinese(text: str) -> str:
    simplified = sum(char in _SIMPLIFIED and char not in _TRADITIONAL for char in text)
    traditional = sum(char in _TRADITIONAL and char not in _SIMPLIFIED for char in text)
    return "zh-Hant" if traditional > simplified else "zh-Hans"


def _latin(text: str) -> str:
    words = re.findall(r"[^\W\d_]+", text.lower())
    scores = {name: sum(word in known for word in words) for name, known in FUNCTION_WORDS.items()}
    return max(scores, key=lambda name: scores[name])
