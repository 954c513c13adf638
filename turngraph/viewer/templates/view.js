(() => {
  const box = document.querySelector("[data-live]");
  if (!box) return;
  const state = box.querySelector(".state");
  const nodes = box.querySelector(".live-nodes");
  const text = box.querySelector(".live-text");
  const running = new Map();

  const chip = (key, label) => {
    const item = document.createElement("li");
    item.textContent = label;
    item.dataset.key = key;
    nodes.append(item);
    return item;
  };
  const show = () => {
    box.classList.toggle("running", running.size > 0);
    state.textContent = running.size ? `a turn of ${[...running.values()].join(", ")} is running` : "no turn is running";
  };
  const on = {
    started: (event) => {
      running.set(event.trace, event.session);
      nodes.replaceChildren();
      text.textContent = "";
      text.hidden = true;
    },
    node: (event) => chip(event.node, event.node).classList.add("now"),
    "node done": (event) => {
      const item = [...nodes.children].findLast((li) => li.dataset.key === event.node && li.classList.contains("now"));
      if (!item) return;
      item.classList.remove("now");
      item.classList.toggle("bad", event.error !== null);
      item.textContent = `${event.node} ${event.ms} ms`;
    },
    tool: (event) => chip(`tool ${event.tool}`, `⚙ ${event.tool}`),
    text: (event) => {
      text.hidden = false;
      text.textContent = (text.textContent + event.text).slice(-8000);
    },
    ended: (event) => {
      running.delete(event.trace);
      if (box.dataset.live.includes("key=")) setTimeout(() => window.location.reload(), 800);
    },
  };
  const events = new EventSource(box.dataset.live);
  events.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (on[event.what]) on[event.what](event);
    show();
  };
})();
