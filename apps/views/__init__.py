"""The pages, a file each. Streamlit runs a page as a script; nothing imports one."""
