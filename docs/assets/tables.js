// On a phone the cells of a wide table stand below each other: each needs the name of its column.
for (const table of document.querySelectorAll(".md-content table")) {
  const columns = [...table.querySelectorAll("th")].map(each => each.textContent)
  for (const row of table.querySelectorAll("tbody tr")) {
    row.querySelectorAll("td").forEach((cell, at) => (cell.dataset.column = columns[at]))
  }
}
