"""The order inside a framework's own loop; each module needs its framework (`pip install "gradorder[lightning]"`)."""
