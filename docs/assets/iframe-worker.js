// A page that is read as a file may start no worker. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.onmessage?.({ data })
      const script = inside.document.createElement("script")
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = reject
      })
      this.ready.catch(error => this.onerror?.(error))
      script.src = url
      inside.document.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.onmessage({ data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
