// What each policy key takes; a test holds this list to memhint's own. From "[" on it is JSON.

// prettier-ignore
export const POLICY_KEYS = [
  {"name": "reporting", "words": ["on", "off", "auto"], "help": "free page reporting"},
  {"name": "dedup", "words": ["on", "off", "auto"], "help": "merge equal pages with VMs of the same project"},
  {"name": "guest_actions", "words": ["allow", "deny"], "help": "whether anything inside the guest may be changed"},
  {"name": "guest_unbind", "words": ["allow", "deny"], "help": "whether the balloon driver may be unbound"},
  {"name": "project", "name_like": true, "help": "whose VM it is, where Nova does not say"},
  {"name": "class", "words": ["guaranteed", "burstable", "best-effort"], "help": "how much of its memory is promised"},
  {"name": "min_mb", "low": 0, "high": 16777216, "unit": "MiB", "help": "what it always keeps"},
  {"name": "overcommit", "words": ["allow", "deny"], "help": "whether its unused memory may be promised to others"},
  {"name": "group", "name_like": true, "help": "anti-affinity group that grows together"},
  {"name": "balloon", "words": ["allow", "deny"], "help": "whether it may be ballooned when idle"},
  {"name": "swap_out", "words": ["allow", "deny"], "help": "whether its cold memory may be swapped out"},
  {"name": "reporting_order", "words": ["auto"], "low": 0, "high": 10, "help": "smallest free block reported, as an order"},
  {"name": "reporting_delay_ms", "words": ["auto"], "low": 0, "high": 3600000, "unit": "ms", "help": "how long free memory is collected before it is reported"}
];
