"""From a program to an answer: its hot function found, timed, recorded, simulated and explained."""
