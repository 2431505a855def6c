"""What every part uses: checks of arguments, threads, progress, names in messages."""
