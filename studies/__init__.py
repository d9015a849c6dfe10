"""One short, readable script per question; results/ holds the tables they wrote."""
