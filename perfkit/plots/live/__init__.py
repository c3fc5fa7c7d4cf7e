"""What the views that compute in the browser are given: models small enough to travel in a page."""
