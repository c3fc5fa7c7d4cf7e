"""Interactive views of perfkit's results for Jupyter: they hold a selection and draw; they never compute."""
