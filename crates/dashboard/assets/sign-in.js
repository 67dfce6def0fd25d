// Shows the token in a header, where the port reviews it as any other client's, and opens the page with the cookie that
// comes back.

const form = /** @type {HTMLFormElement} */ (document.querySelector("form"));
const why = /** @type {HTMLElement} */ (document.getElementById("why"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = String(new FormData(form).get("token") ?? "").trim();
  const answer = await fetch("session", { headers: { authorization: `Bearer ${token}` }, cache: "no-store" });
  if (answer.ok) location.reload();
  else why.textContent = answer.status === 403 ? "This token's user may not `get` the path /dashboard/." : "The API server does not know this token.";
});
