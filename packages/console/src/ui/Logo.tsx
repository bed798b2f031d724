/** The product's logo: a card. */
export const Logo = () => (
  <svg className="mark" viewBox="0 0 32 32" aria-hidden>
    <rect className="mark-field" width="32" height="32" rx="8" />
    <path className="mark-stripe" d="M7 12.5A2.5 2.5 0 0 1 9.5 10h13a2.5 2.5 0 0 1 2.5 2.5V14H7z" />
    <path className="mark-card" d="M7 17h18v3.500a2.500 2.500 0 0 1-2.500 2.500h-13A2.500 2.500 0 0 1 7 20.500z" />
  </svg>
)
