"""A first recipe for a user's own data, with sizes that fit them and comments that say why."""
