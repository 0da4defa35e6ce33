// The key of this tab. It is kept for as long as the tab is open, and goes nowhere but to the server.

const NAME = "sdgar.key";
const dialog = document.getElementById("key-dialog");
const field = document.getElementById("key-field");
const note = document.getElementById("key-note");
const button = document.getElementById("key-button");

let held = null;
let asking = null;
let declined = false;

try {
  held = sessionStorage.getItem(NAME);
} catch {
  // A browser may forbid storage; then the key lives as long as the page.
}

/** Tell the key that was typed in this tab; null if there is none. */
export const keyOfSession = () => held;

function keep(key) {
  held = key || null;
  try {
    if (held) sessionStorage.setItem(NAME, held);
    else sessionStorage.removeItem(NAME);
  } catch {
    // See above.
  }
  button.hidden = false;
}

function open(message) {
  note.textContent = message;
  field.value = "";
  field.setAttribute("aria-invalid", String(Boolean(held)));
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const typed = field.value.trim();
        field.value = "";
        resolve(dialog.returnValue === "use" ? typed : null);
      },
      { once: true },
    );
  });
}

/** Ask for a key after one was refused; true if there is another now. One dialog serves all. */
export async function askForKey(refused) {
  if (held !== refused) return true; // another question has brought a new key meanwhile
  if (declined) return false;
  asking ??= open(
    refused
      ? "The server did not accept this key. It may be mistyped, expired or revoked."
      : "This server answers only to those who have a key.",
  ).finally(() => (asking = null));
  const typed = await asking;
  if (typed) keep(typed);
  declined = !typed;
  button.hidden = false;
  return Boolean(typed);
}

/** Let the dialog come again that someone has put off. */
export const askAgain = () => {
  declined = false;
};

/** Let the button in the header change the key. */
export function startKeys(changed) {
  button.hidden = held === null;
  button.addEventListener("click", async () => {
    const typed = await open("Another key takes the place of the one that this tab uses now.");
    if (typed) {
      keep(typed);
      changed();
    }
  });
  document.getElementById("key-cancel").addEventListener("click", () => dialog.close("cancel"));
}
