import { Toast } from "@base-ui/react/toast"

/** Messages about completed actions, in the corner of the page and for screen readers. */
export const Toasts = () => {
  const { toasts } = Toast.useToastManager()
  return (
    <Toast.Portal>
      <Toast.Viewport className="toasts">
        {toasts.map((toast) => (
          <Toast.Root key={toast.id} toast={toast} className="toast">
            <Toast.Title className="toast-title" />
            <Toast.Description className="toast-text" />
            <Toast.Close className="toast-close" aria-label="Dismiss">
              ×
            </Toast.Close>
          </Toast.Root>
        ))}
      </Toast.Viewport>
    </Toast.Portal>
  )
}

export const useToast = () => {
  const manager = Toast.useToastManager()
  return (title: string, description?: string) =>
    void manager.add({ title, ...(description === undefined ? {} : { description }) })
}
