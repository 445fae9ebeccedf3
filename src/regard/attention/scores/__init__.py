"""Score functions of recurrent attention, one file a kind."""
