import { defineConfig, type Plugin } from "vite";

/** Puts the script and the style sheet into the page itself, so that it is one file. */
function inlineAll(): Plugin {
  return {
    name: "inline-all",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("there is no index.html");
      let html = String(page.source);
      for (const [name, item] of Object.entries(bundle)) {
        if (item === page) continue;
        delete bundle[name];
        // In a replacement "$" would mean something; in a script "</script" would end it, and "<!--"
        // might keep it from ending.
        if (item.type === "chunk") {
          const code = item.code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
          html = html.replace(/<script type="module"[^>]*src="[^"]*"[^>]*><\/script>/, "");
          html = html.replace("</body>", () => `<script type="module">${code}</script></body>`);
        } else {
          const style = String(item.source);
          html = html.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${style}</style>`);
        }
      }
      if (/(?:src|href)="(?!data:)/.test(html.replace(/<script[\s\S]*?<\/script>/g, ""))) {
        throw new Error("the page would ask for another file");
      }
      page.source = html;
      page.fileName = "report.html";
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [inlineAll()],
  build: {
    outDir: "../build/web",
    emptyOutDir: true,
    modulePreload: false,
    target: "es2023",
    // The layout engine is large, and is meant to be in the page.
    chunkSizeWarningLimit: 4000,
  },
});
