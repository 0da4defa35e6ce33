"""Who proposes the negatives."""
