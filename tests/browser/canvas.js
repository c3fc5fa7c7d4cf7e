// Looks at what is drawn on canvases, which leave only pixels: each text's contrast with what it covers (4.5), each bar's
// (3), and texts that end outside. `look.js` reads the faults of the last drawing.
(() => {
  const prototype = CanvasRenderingContext2D.prototype;
  const { fillText, fillRect, clearRect } = prototype;
  const rgb = (css) => (css.startsWith('#') ? [1, 3, 5].map((at) => parseInt(css.slice(at, at + 2), 16)).concat(1) : css.match(/[\d.]+/g).map(Number));
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const over = (top, alpha, below) => [0, 1, 2].map((i) => top[i] * alpha + below[i] * (1 - alpha));
  const page = (canvas) => {
    for (let e = canvas; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if ((colour[3] ?? 1) >= 1) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  // The commonest colour of a box, on the page; null where nothing of the box lies on the canvas.
  const ground = (context, x, y, width, height) => {
    const { a, d, e, f } = context.getTransform(), { canvas } = context;
    const [left, top] = [Math.max(0, Math.round(a * x + e)), Math.max(0, Math.round(d * y + f))];
    const [right, bottom] = [Math.min(canvas.width, a * (x + width) + e), Math.min(canvas.height, d * (y + height) + f)];
    if (right - left < 1 || bottom - top < 1) return null;
    const { data } = context.getImageData(left, top, Math.ceil(right - left), Math.ceil(bottom - top)), counts = new Map();
    for (let i = 0; i < data.length; i += 4) {
      const key = (data[i] << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3];
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const [key] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most));
    const paper = page(canvas);
    return over([(key >>> 24) & 255, (key >>> 16) & 255, (key >>> 8) & 255], (key & 255) / 255, paper);
  };
  const note = (canvas, fault, text) => {
    canvas.drawnFaults ??= new Map();
    canvas.drawnFaults.set(`${fault} ${text}`, [fault, text]);
  };
  prototype.clearRect = function clear(...box) {
    this.canvas.drawnFaults = new Map();
    return clearRect.apply(this, box);
  };
  prototype.fillText = function text(words, x, y, ...rest) {
    if (this.canvas.isConnected && typeof this.fillStyle === 'string' && `${words}`.trim()) {
      const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right, actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = this.measureText(words);
      const below = ground(this, x - left, y - up, left + right, up + down);
      const ink = rgb(this.fillStyle), ratio = below && contrast(over(ink, (ink[3] ?? 1) * this.globalAlpha, below), below);
      if (below && ratio < 4.45) note(this.canvas, 'faint text', `${words} on a canvas (${ratio.toFixed(2)}: ${this.fillStyle} on ${below.map(Math.round)})`);
      if (parseFloat(this.font.match(/([\d.]+)px/)?.[1] ?? 9) < 9) note(this.canvas, 'small', `${words} on a canvas (${this.font})`);
    }
    return fillText.call(this, words, x, y, ...rest);
  };
  prototype.fillRect = function rect(x, y, width, height) {
    // Bars: not grids, which are one pixel wide, and not the ground of whole rows.
    if (this.canvas.isConnected && typeof this.fillStyle === 'string' && width >= 3 && height >= 3 && height <= 14) {
      const ink = rgb(this.fillStyle), alpha = (ink[3] ?? 1) * this.globalAlpha, paper = page(this.canvas);
      const ratio = contrast(over(ink, alpha, paper), paper);
      if (alpha > 0.65 && ratio < 2.95) note(this.canvas, 'faint line', `a bar ${this.fillStyle} on a canvas (${ratio.toFixed(2)} on ${paper.map(Math.round)})`);
    }
    return fillRect.call(this, x, y, width, height);
  };
})();
