// The search runs in a worker, and a page that is read from disk may start none: there it runs in a hidden frame. That
// holds up the page while the index is built, so it begins when something is first given the focus, as the search is.
if (location.protocol === "file:") {
  const firstFocus = new Promise((resolve) => addEventListener("focusin", resolve, { once: true }));
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.inside = firstFocus.then(() => this.start(url));
    }

    start(url) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      return new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(inside);
          inside.document.body.append(script);
        };
        document.documentElement.append(frame);
      });
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
