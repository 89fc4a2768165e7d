"""What goes in and out, as JSON Schema: checked on its way in, shown in /openapi.json. One file per resource."""
