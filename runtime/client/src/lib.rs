//! What a sensor process links to submit frames with deadlines and read answers.
