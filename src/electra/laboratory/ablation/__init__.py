"""Studies: arms over a recipe, trained with equal FLOPs and scored with one panel of tasks."""
