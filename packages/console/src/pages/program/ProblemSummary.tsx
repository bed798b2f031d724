import { fieldName } from "./Sections.ts"
import type { Problems } from "./Compile.ts"

/** All problems in one place, each with a button that focuses its field. */
export const ProblemSummary = ({ problems }: { readonly problems: Problems }) => {
  if (problems.size === 0) return undefined
  const all = [...problems].flatMap(([field, texts]) => texts.map((text) => ({ field, text })))
  return (
    <div className="failure column" role="alert">
      <p className="failure-title">
        {all.length === 1 ? "One problem keeps" : `${all.length} problems keep`} this version from being published
      </p>
      <ul>
        {all.map(({ field, text }) => (
          <li key={`${field} ${text}`}>
            {field === "" ? (
              text
            ) : (
              <>
                <button type="button" className="link" onClick={() => document.getElementById(field)?.focus()}>
                  {fieldName(field)}
                </button>
                : {text}
              </>
            )}
          </li>
        ))}
      </ul>
    </div>
  )
}
