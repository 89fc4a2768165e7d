// Levers: what is wished, what is seen, and why they differ.

import { badge } from "./badge.js";
import { dataTable } from "./table.js";

export function leverTable(caption) {
  return dataTable({
    caption,
    id: (row) => `${row.lever}/${row.subject}`,
    empty: "No lever is known here.",
    columns: [
      { key: "lever", label: "Lever", text: (row) => row.lever },
      { key: "desired", label: "Desired", text: (row) => row.desired ?? "unknown" },
      {
        key: "observed",
        label: "Observed",
        text: (row) => row.observed ?? "unknown",
        show: (row) => badge(row.observed ?? "unknown"),
      },
      { key: "answer", label: "Answer", text: (row) => row.answer, show: (row) => badge(row.answer) },
      { key: "reason", label: "Reason", text: (row) => (row.reason === "none" ? "" : row.reason) },
      { key: "detail", label: "Detail", prose: true, text: (row) => row.detail ?? "", sortable: false },
    ],
  });
}
