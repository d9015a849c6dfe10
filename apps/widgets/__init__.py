"""Parts that several pages share: pickers, the prompt bar, the token strip, the export row."""
