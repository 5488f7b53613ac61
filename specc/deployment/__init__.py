"""What a deployment needs around a bundle: files rendered from templates, copies of the bundle and the runtime."""
