mod arrows;
