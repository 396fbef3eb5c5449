// The search runs in a worker, and a page that is read from disk may start none: there it runs in a hidden frame, which
// is made for the first message. That is sent when the search is opened: to build the index holds up the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
    }

    start() {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      return new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = this.url;
          script.onload = () => resolve(inside);
          inside.document.body.append(script);
        };
        document.documentElement.append(frame);
      });
    }

    postMessage(data) {
      this.inside ??= this.start();
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };

  // The search looks at what it was given when a key is let go: what is pasted comes without keys.
  addEventListener("input", ({ target }) => target.dispatchEvent(new Event("keyup")));
}
