"""What a trained model is, whoever trained it: it scores, takes new users in, and saves itself."""
