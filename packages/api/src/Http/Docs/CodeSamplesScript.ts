/**
 * Shows the `x-codeSamples` of each operation of the page, each with a button that copies it: a plugin of Swagger UI,
 * whose components are those of the page's own React. `$BASE_URL` is the address of the page.
 */
export const codeSamplesScript = `<style>
.code-samples { padding: 0 20px 10px }
.code-samples summary { cursor: pointer; padding: 5px 0; font: 600 12px sans-serif; color: #3b4151 }
.code-samples pre { position: relative; margin: 0 0 5px; padding: 10px; border-radius: 4px; overflow: auto;
  background: #333; color: #fff; font: 12px/1.5 monospace }
.code-samples button { position: absolute; top: 6px; right: 6px; padding: 2px 8px; border: 0; border-radius: 4px;
  background: #7d8293; color: #fff; font: 600 12px sans-serif; cursor: pointer }
</style>
<script>
{
  const withSamples = (Responses, { React, specSelectors }) => {
    const { createElement, useState } = React
    const Sample = ({ label, source, isOpen }) => {
      const [isCopied, setCopied] = useState(false)
      const text = source.replace("$BASE_URL", location.origin)
      // without https a browser has no clipboard; the text is selected instead
      const copy = ({ target }) => navigator.clipboard === undefined
        ? getSelection().selectAllChildren(target.previousSibling)
        : navigator.clipboard.writeText(text).then(() => setCopied(true))
      return createElement("details", { open: isOpen },
        createElement("summary", null, label),
        createElement("pre", null,
          createElement("code", null, text),
          createElement("button", { type: "button", onClick: copy }, isCopied ? "Copied" : "Copy")))
    }
    return (props) => {
      const samples = specSelectors.specJson().getIn(["paths", props.path, props.method, "x-codeSamples"])
      return createElement("div", null,
        createElement("div", { className: "code-samples" },
          (samples?.toJS() ?? []).map((sample, index) =>
            createElement(Sample, { key: sample.label, isOpen: index === 0, ...sample }))),
        createElement(Responses, props))
    }
  }
  const original = window.SwaggerUIBundle
  const plugins = [{ wrapComponents: { responses: withSamples } }]
  window.SwaggerUIBundle = Object.assign((options) => original({ ...options, deepLinking: true, plugins }), original)
}
</script>
`
