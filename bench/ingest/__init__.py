"""What it takes to keep the reports of a whole fleet: broker, controller, database and API under a steady load."""
