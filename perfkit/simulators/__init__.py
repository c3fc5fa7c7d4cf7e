"""Models that execute traces and dependence graphs: settings objects whose ``run`` returns a new result."""
